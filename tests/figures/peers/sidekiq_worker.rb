# Sidekiq as a peer of script/bench peers: `add` adds the jobs of standard input, in bulk or by so many callers one by one,
# `work` and `handle` run them until they are killed, and `greet` adds a job for the first worker.

require 'json'
require 'net/http'
require 'sidekiq'

Redis.silence_deprecations = true

def redis
  { url: "unix://#{ENV.fetch('PEER_SOCKET')}" }
end

def report(text)
  File.open(ENV.fetch('PEER_ENDS'), 'a') { |file| file.syswrite("#{text}\n") }
end

Sidekiq.configure_client { |config| config.redis = redis.merge(size: 32) }
Sidekiq.configure_server do |config|
  config.redis = redis
  config.logger.level = Logger::ERROR
  config.on(:startup) { report('ready') }
end

class PeerJob
  include Sidekiq::Worker
  @@lock = Mutex.new
  @@counted = 0

  def perform(action)
    return count(action) if action.is_a?(Integer)
    return request(action['http']) if action['http']

    system(*(action['command'] || ['/bin/sh', '-c', action['shell']]), exception: true)
    report(Time.now.to_f * 1000)
  end

  def count(most)
    counted = @@lock.synchronize { @@counted += 1 }
    report(Time.now.to_f * 1000) if counted == most
  end

  def request(action)
    url = URI(action['url'])
    http = (Thread.current[:http] ||= Net::HTTP.start(url.host, url.port))
    http.send_request(action['method'], url.path, action['body'], action['headers'])
  end
end

def add_bulk(jobs)
  jobs.each_slice(1000) do |some|
    args = some.map { |job| [job['action']] }
    at = some.map { |job| job['at'] / 1000.0 }
    Sidekiq::Client.push_bulk('class' => PeerJob, 'args' => args, 'at' => at)
  end
end

def add_one_by_one(jobs, callers)
  threads = jobs.each_slice(jobs.size / callers).map do |share|
    Thread.new { share.each { |job| PeerJob.perform_at(job['at'] / 1000.0, job['action']) } }
  end
  threads.each(&:join)
end

def add(callers)
  jobs = $stdin.each_line.map { |line| JSON.parse(line) }
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  callers ? add_one_by_one(jobs, callers.to_i) : add_bulk(jobs)
  puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
end

if $PROGRAM_NAME == __FILE__
  case ARGV[0]
  when 'add' then add(ARGV[1])
  when 'greet' then Sidekiq::Client.push('class' => 'Greet', 'args' => ['ann'])
  else
    require 'sidekiq/cli'
    cli = Sidekiq::CLI.instance
    cli.parse(['--require', __FILE__, '--concurrency', '32'])
    cli.run
  end
end
