// Keys for a reader without a mouse: / ? g and a letter, j and k. No key does anything while the
// reader types. A reader who has switched the keys off does not get this file. Each section of the navigation names its letter in data-go.

const PAUSE = 1_500;
const FIELDS = 'textarea, select, [contenteditable], input:not([type="checkbox"], [type="radio"])';
const sections = [...document.querySelectorAll('[data-go]')];
const find = document.getElementById('find');
let goUntil = 0;

const element = (name, text, ...children) => {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
};

/** Returns the dialog that names all keys, which is made when it is first wanted. */
function help() {
  const known = document.getElementById('keys');
  if (known) return known;
  const row = ([keys, words]) => element('div', '', element('dt', '', ...keys.map((key) => element('kbd', key))), element('dd', words));
  const rows = [
    [['/'], 'Search jobs by name'],
    ...sections.map((link) => [['g', link.dataset.go], link.textContent]),
    [['j', 'k'], 'The next and the previous row; Enter opens it'],
    [['?'], 'Show these keys, or hide them'],
  ];
  const off = element('a', 'Switch these keys off');
  off.href = document.getElementById('choices').href;
  const close = element('button', 'Close');
  const title = element('h2', 'Keys');
  title.id = 'keys-title';
  const dialog = element('dialog', '', title, element('dl', '', ...rows.map(row)), element('p', '', off), close);
  dialog.id = 'keys';
  dialog.setAttribute('aria-labelledby', title.id);
  close.addEventListener('click', () => dialog.close());
  document.body.append(dialog);
  return dialog;
}

function toggleHelp() {
  const dialog = help();
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

/** Puts the focus on the link of the next row, or of the previous row. */
function move(step) {
  const links = [...document.querySelectorAll('main .rows tbody tr')].map((row) => row.querySelector('a'));
  const shown = links.filter((link) => link?.checkVisibility());
  const row = document.activeElement.closest('tr');
  const at = shown.findIndex((link) => link.closest('tr') === row);
  const next = at < 0 ? (step > 0 ? 0 : shown.length - 1) : at + step;
  shown[next]?.focus();
}

/** Does what the key stands for. Returns false if it stands for nothing here. */
function act(key, isAfterG) {
  const section = isAfterG && sections.find((link) => link.dataset.go === key);
  if (section) section.click();
  else if (key === 'g') goUntil = Date.now() + PAUSE;
  else if (key === '/') find.focus();
  else if (key === '?') toggleHelp();
  else if (key === 'j') move(1);
  else if (key === 'k') move(-1);
  else return false;
  return true;
}

if (find) {
  document.addEventListener('keydown', (event) => {
    const { key, target } = event;
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (target.matches(FIELDS)) {
      if (key === 'Escape' && target === find) find.blur();
      return;
    }
    const isAfterG = Date.now() < goUntil;
    goUntil = 0;
    if (target.closest('dialog') && key !== '?') return;
    if (act(key, isAfterG)) event.preventDefault();
  });
  const hint = element('button', 'Keys: ?');
  hint.type = 'button';
  hint.className = 'hint';
  hint.addEventListener('click', toggleHelp);
  document.querySelector('.foot').append(hint);
}
