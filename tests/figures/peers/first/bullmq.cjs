// The smallest worker of BullMQ.

const { Worker } = require('bullmq');

new Worker('first', (job) => console.log('hello', job.data), { connection: { url: process.env.REDIS_URL } });
