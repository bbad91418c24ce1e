// Follows the output of a run that runs, as server-sent events, when the reader asks for it. Without
// this file, the page shows the last lines each time it is opened again.

const MOST = 200_000;
const place = document.querySelector('[data-follow]');

/** Returns text without characters that control a terminal or the direction of writing. */
const safe = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
  (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

function follow(button) {
  const output = document.createElement('pre');
  output.className = 'output';
  output.tabIndex = 0;
  output.setAttribute('role', 'log');
  output.setAttribute('aria-label', 'Output as it is written');
  place.append(output);
  const add = (text) => {
    const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
    output.append(safe(text));
    while (output.textContent.length > MOST && output.childNodes.length > 1) output.firstChild.remove();
    if (atEnd) output.scrollTop = output.scrollHeight;
  };
  const source = new EventSource(place.dataset.follow);
  const end = (why) => {
    source.close();
    add(`\n(${why})\n`);
    button.textContent = 'Follow again';
    button.onclick = () => {
      output.remove();
      follow(button);
    };
  };
  source.addEventListener('output', (event) => {
    const { stdout, stderr, state } = JSON.parse(event.data);
    add(stdout + stderr);
    if (state) end(`the run ended: ${state.replace('_', ' ')}`);
  });
  source.addEventListener('dropped', (event) => end(JSON.parse(event.data).reason));
  // After a broken connection, the browser asks again for what is behind the last event.
  source.addEventListener('error', () => source.readyState === EventSource.CLOSED && end('the output cannot be read'));
  button.textContent = 'Stop following';
  button.onclick = () => end('stopped');
}

if (place) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Follow the output';
  button.onclick = () => follow(button);
  place.append(button);
}
