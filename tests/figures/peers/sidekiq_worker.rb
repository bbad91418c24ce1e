# Sidekiq as a peer of script/bench peers: `add` adds the jobs of standard input, `work` runs them until it is killed.

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

Sidekiq.configure_client { |config| config.redis = redis }
Sidekiq.configure_server do |config|
  config.redis = redis
  config.logger.level = Logger::ERROR
  config.on(:startup) { report('ready') }
end

class PeerJob
  include Sidekiq::Worker

  def perform(action)
    return request(action['http']) if action['http']

    system(*(action['command'] || ['/bin/sh', '-c', action['shell']]), exception: true)
    report(Time.now.to_f * 1000)
  end

  def request(action)
    url = URI(action['url'])
    http = (Thread.current[:http] ||= Net::HTTP.start(url.host, url.port))
    http.send_request(action['method'], url.path, action['body'], action['headers'])
  end
end

def add
  jobs = $stdin.each_line.map { |line| JSON.parse(line) }
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  jobs.each_slice(1000) do |some|
    args = some.map { |job| [job['action']] }
    at = some.map { |job| job['at'] / 1000.0 }
    Sidekiq::Client.push_bulk('class' => PeerJob, 'args' => args, 'at' => at)
  end
  puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
end

if $PROGRAM_NAME == __FILE__
  if ARGV[0] == 'add'
    add
  else
    require 'sidekiq/cli'
    cli = Sidekiq::CLI.instance
    cli.parse(['--require', __FILE__, '--concurrency', '32'])
    cli.run
  end
end
