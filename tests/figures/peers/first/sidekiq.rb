# The smallest worker of Sidekiq, started by `sidekiq -r ./sidekiq.rb`. REDIS_URL has the address.

class Greet
  include Sidekiq::Job

  def perform(name)
    puts "hello #{name}"
  end
end
