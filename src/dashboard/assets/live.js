// Keeps the page fresh: asks for the page's own address again while it is visible, and puts what
// differs into the elements marked data-live. Everything works without this file, but not by itself.

const PAUSE = 2_000;
const LONGEST_PAUSE = 60_000;
const YEAR = 31_536_000;
const state = document.getElementById('live-state');
/** The HTML of each region as the server sent it last. */
const sent = new Map();
let pause = PAUSE, etag = null, timer = 0, ahead = 0;

/** Returns HTML without the distances from now, which change by themselves. */
const steady = (element) => element.outerHTML.replace(/<span class="rel"[^>]*>[^<]*/g, '');
const regions = (root) => root.querySelectorAll('[data-live][id]');

/** Returns a duration in its two largest units, as the server writes it. */
function span(ms) {
  if (ms < 1_000) return `${Math.floor(ms)}ms`;
  let left = Math.floor(ms / 1_000);
  const parts = [];
  for (const [unit, letter] of [[86_400, 'd'], [3_600, 'h'], [60, 'm'], [1, 's']]) {
    const count = Math.floor(left / unit);
    left %= unit;
    if (count > 0) parts.push(count + letter);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}

/** Counts the distances from now on. */
function tick() {
  const now = Date.now() + ahead;
  for (const element of document.querySelectorAll('.rel[data-at]')) {
    const left = Number(element.dataset.at) - now;
    const isLeft = 'left' in element.dataset;
    const words = left >= 0 ? (isLeft ? '' : 'in ') + span(Math.max(left, 1_000)) : span(Math.max(-left, 1_000)) + (isLeft ? ' late' : ' ago');
    if (element.textContent !== words) element.textContent = words;
  }
}

/** Takes the server's clock from the page: the host of the browser may have another time. */
function setClock(root) {
  const now = root.querySelector('#now');
  if (now) ahead = Number(now.dataset.now) - Date.now();
}

/** Returns true if a form in the element was changed and not sent. */
function hasInput(element) {
  return [...element.querySelectorAll('input, textarea, select')].some((field) =>
    field.tagName === 'SELECT' ? [...field.options].some((option) => option.selected !== option.defaultSelected && !(field.selectedIndex === 0 && option.index === 0))
      : field.type === 'checkbox' || field.type === 'radio' ? field.checked !== field.defaultChecked
        : field.type !== 'hidden' && field.value !== field.defaultValue);
}

/** Returns true if the reader works in the element: types there, or has selected text there. */
function isInUse(element) {
  const active = document.activeElement;
  const types = element.contains(active) && active.matches('input, textarea, select');
  const selection = document.getSelection();
  return types || hasInput(element) || (selection && !selection.isCollapsed && selection.containsNode(element, true));
}

const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || '' : '';

/** Makes the node `old` like `fresh`, and keeps the nodes that stay: so focus and scrolling stay. */
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.isEqualNode(fresh)) return;
  const keeps = (name) => name === 'open' && old.nodeName === 'DETAILS';
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !keeps(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !keeps(name)) old.setAttribute(name, value);
  const keyed = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const match = keyed.get(keyOf(child));
    if (match && match !== place) old.insertBefore(match, place);
    const found = match ?? place;
    if (!found || (!match && keyOf(found))) {
      old.insertBefore(child, place);
      continue;
    }
    place = found.nextSibling;
    morph(found, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function show(text) {
  if (state && state.textContent !== text) state.textContent = text;
}

/** Puts the regions of a fresh page into this page. Returns false if a region is in use. */
function put(page) {
  let isWhole = true;
  for (const region of regions(document)) {
    const fresh = page.getElementById(region.id);
    if (!fresh) continue;
    const html = steady(fresh);
    if (html === sent.get(region.id)) continue;
    if (isInUse(region)) {
      isWhole = false;
      continue;
    }
    sent.set(region.id, html);
    morph(region, fresh);
  }
  return isWhole;
}

async function refresh() {
  const answer = await fetch(location.href, { cache: 'no-store', headers: { Accept: 'text/html', ...(etag && { 'If-None-Match': etag }) } });
  if (answer.status === 304) return show('');
  if (answer.status === 401) {
    show('Signed out. Type schedctl dashboard to sign in again.');
    return;
  }
  if (!answer.ok) throw new Error(String(answer.status));
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  setClock(page);
  // A region that is in use gets its news with the next answer.
  etag = put(page) ? answer.headers.get('ETag') : null;
  show('');
  tick();
}

async function turn() {
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      await refresh();
      pause = PAUSE;
    } catch {
      pause = Math.min(pause * 2, LONGEST_PAUSE);
      show(`No answer. The next try is in ${span(pause)}.`);
    }
  }
  timer = setTimeout(turn, pause);
}

/** Names the zone of this browser to the server. Returns true if the server did not know it. */
function nameZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || /schedd_own_zone=/.test(document.cookie)) return false;
  document.cookie = `schedd_own_zone=${zone}; Path=/; Max-Age=${YEAR}; SameSite=Strict`;
  return true;
}

const signIn = document.getElementById('sign-in');
if (signIn) {
  // A link on another site sends no cookie with the first request, but this request does.
  const { wanted } = signIn.dataset;
  fetch(wanted, { cache: 'no-store' }).then((answer) => answer.ok && location.replace(wanted), () => {});
} else if (regions(document).length > 0) {
  for (const region of regions(document)) sent.set(region.id, steady(region));
  setClock(document);
  setInterval(tick, 1_000);
  document.addEventListener('visibilitychange', () => document.hidden || turn());
  timer = setTimeout(turn, nameZone() ? 0 : PAUSE);
}
