// BullMQ as a peer of script/bench peers: `add` adds the jobs of standard input, `work` runs them until it is killed.

import { spawn } from 'node:child_process';
import { openSync, readFileSync, writeSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';

const { Queue, Worker } = createRequire(`${process.env.PEER_PACKAGES}/node/`)('bullmq');
const connection = { path: process.env.PEER_SOCKET, maxRetriesPerRequest: null };
const concurrency = 32;
const agent = new http.Agent({ keepAlive: true, maxSockets: concurrency });

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

async function add() {
  const jobs = readFileSync(0, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const queue = new Queue('peer', { connection });
  await queue.waitUntilReady();
  const started = process.hrtime.bigint();
  for (let first = 0; first < jobs.length; first += 1000) {
    const now = Date.now();
    const some = jobs.slice(first, first + 1000);
    await queue.addBulk(some.map(({ at, action }) => ({ name: 'job', data: action, opts: { delay: at - now } })));
  }
  console.log(Number(process.hrtime.bigint() - started) / 1e9);
  await queue.close();
}

async function work() {
  const ends = openSync(process.env.PEER_ENDS, 'a');
  const report = (text) => writeSync(ends, `${text}\n`);
  const job = async ({ data }) => {
    if (data.http) return request(data.http);
    await run(data.command ?? ['/bin/sh', '-c', data.shell]);
    report(performance.timeOrigin + performance.now());
  };
  const worker = new Worker('peer', job, { connection, concurrency });
  await worker.waitUntilReady();
  report('ready');
}

await (process.argv[2] === 'add' ? add() : work());
