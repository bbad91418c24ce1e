// BullMQ as a peer of script/bench peers: `add` adds the jobs of standard input, in bulk or by so many callers one by one,
// `work` and `handle` run them until they are killed, and `greet` adds a job for the first worker.

import { spawn } from 'node:child_process';
import { openSync, readFileSync, writeSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';

const { Queue, Worker } = createRequire(`${process.env.PEER_PACKAGES}/node/`)('bullmq');
const connection = { path: process.env.PEER_SOCKET, maxRetriesPerRequest: null };
const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });

function request({ url, method, headers, body }) {
  return new Promise((resolve, reject) => {
    const sent = http.request(url, { method, agent, headers: { ...headers, 'Content-Length': body.length } }, (answer) => {
      answer.resume();
      answer.on('end', resolve);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

function run([program, ...args]) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'ignore' });
    child.on('error', reject);
    child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`exit code ${code}`))));
  });
}

async function add(callers) {
  const lines = readFileSync(0, 'utf8').split('\n').filter(Boolean);
  const job = ({ at, action }) => ({ name: 'job', data: action, opts: { delay: at - Date.now() } });
  const jobs = lines.map((line) => JSON.parse(line));
  const queue = new Queue('peer', { connection });
  await queue.waitUntilReady();
  const started = process.hrtime.bigint();
  const addOneByOne = async (_, caller) => {
    for (let next = caller; next < jobs.length; next += callers) {
      const { name, data, opts } = job(jobs[next]);
      await queue.add(name, data, opts);
    }
  };
  if (callers) await Promise.all(Array.from({ length: callers }, addOneByOne));
  else for (let first = 0; first < jobs.length; first += 1000) await queue.addBulk(jobs.slice(first, first + 1000).map(job));
  console.log(Number(process.hrtime.bigint() - started) / 1e9);
  await queue.close();
}

async function work(concurrency) {
  const ends = openSync(process.env.PEER_ENDS, 'a');
  const report = (text) => writeSync(ends, `${text}\n`);
  let counted = 0;
  const job = async ({ data }) => {
    if (typeof data === 'number') {
      if (++counted === data) report(performance.timeOrigin + performance.now());
      return;
    }
    if (data.http) return request(data.http);
    await run(data.command ?? ['/bin/sh', '-c', data.shell]);
    report(performance.timeOrigin + performance.now());
  };
  const worker = new Worker('peer', job, { connection, concurrency });
  await worker.waitUntilReady();
  report('ready');
}

async function greet() {
  const queue = new Queue('first', { connection });
  await queue.add('greet', 'ann');
  await queue.close();
}

const [mode, callers] = process.argv.slice(2);
const modes = { add: () => add(Number(callers)), work: () => work(32), handle: () => work(100), greet };
await modes[mode]();
