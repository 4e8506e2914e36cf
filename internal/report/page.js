// The script of a report: it shows the events that are packed in the page, finds
// text in them, and goes to a seq. Text from events gets into the page as text
// nodes only.
//
// What is inside a block of the timeline is in a noscript element. Where there is
// a script, that is text to a browser, which makes a page of a thousand turns as
// quick to open as one of ten; inhabit makes it what it would have been without.
(() => {
'use strict';

const PAGE = 200;          // rows that are added at a time
const RUN = 8;             // so many deltas in a row are folded into one line
const MOST_MATCHES = 20000;
const MARK = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]|(?!\p{Variation_Selector})\p{Default_Ignorable_Code_Point}|\p{Surrogate}/gu;

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const data = JSON.parse($('#data').textContent);
const delta = data.types.indexOf('assistant/chunk');

// An element with children; strings become text.
function el(tag, cls, ...children) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  e.append(...children);
  return e;
}

// Text from a log, with what is invisible marked.
function show(parent, text) {
  let at = 0;
  for (const m of text.matchAll(MARK)) {
    if (m.index > at) parent.append(text.slice(at, m.index));
    const code = m[0].codePointAt(0);
    parent.append(el('i', 'x', code > 0xffff ? `\\u{${code.toString(16)}}` : '\\u' + code.toString(16).padStart(4, '0')));
    at = m.index + m[0].length;
  }
  parent.append(text.slice(at));
  return parent;
}

const size = n => n < 1024 ? n + ' B' : n < 1024 * 1024 ? (n / 1024).toPrecision(3) + ' KiB' : (n / 1024 / 1024).toPrecision(3) + ' MiB';
const time = ms => Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString().replace('T', ' ') : ms + ' ms';

// JSON text with a line for each member; its tokens stay what they are.
function pretty(text) {
  let out = '', depth = 0, inside = false, escaped = false;
  const line = () => '\n' + '  '.repeat(Math.min(depth, 40));
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (inside) {
      out += c;
      if (escaped) escaped = false;
      else if (c === '\\') escaped = true;
      else if (c === '"') inside = false;
    } else if (c === '"') { inside = true; out += c; }
    else if (c === '{' || c === '[') {
      const close = c === '{' ? '}' : ']';
      if (text[i + 1] === close) { out += c + close; i++; continue; }
      depth++; out += c + line();
    } else if (c === '}' || c === ']') { depth = Math.max(0, depth - 1); out += line() + c; }
    else if (c === ',') out += c + line();
    else if (c === ':') out += ': ';
    else if (c !== ' ' && c !== '\t' && c !== '\r') out += c;
  }
  return out;
}

// The packed events.
const parts = $$('.part').map(e => ({ first: +e.dataset.first, next: +e.dataset.next, e, rows: null }));

async function unpack(part) {
  const bytes = Uint8Array.from(atob(part.e.textContent), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  let at = 0;
  return JSON.parse(await new Response(stream).text()).map((r, i) => {
    at += r[1];
    return { seq: part.first + i, type: r[0], time: at, bytes: r[2], line: r[3], cut: r[4] === 1 };
  });
}

const rowsOf = part => part.rows ??= unpack(part);

async function events(first, last) {
  const found = [];
  for (const p of parts) {
    if (p.next <= first || p.first > last) continue;
    for (const r of await rowsOf(p)) if (r.seq >= first && r.seq <= last) found.push(r);
  }
  return found;
}

// Rows of events, deltas in a row as one.
function runsOf(rows) {
  const runs = [];
  for (let i = 0; i < rows.length;) {
    let j = i + 1;
    if (rows[i].type === delta) while (j < rows.length && rows[j].type === delta && rows[j].seq === rows[j - 1].seq + 1) j++;
    if (j - i >= RUN) runs.push(rows.slice(i, j));
    else for (let k = i; k < j; k++) runs.push([rows[k]]);
    i = j;
  }
  return runs;
}

const cat = (first, last) => el('code', 'wrap u', `${data.cat} --from ${first} --to ${last}`);

// What comes behind the envelope, in most lines.
function dataOf(line) {
  const i = line.indexOf('"data":');
  return i < 0 ? line : line.slice(i + 7, line.endsWith('}') ? -1 : undefined);
}

function eventRow(r) {
  const d = el('details', 'e'), s = el('summary');
  const link = el('a', 's', String(r.seq));
  link.href = '#seq-' + r.seq;
  d.id = 'ev-' + r.seq;
  s.append(link, el('span', 'tm', time(r.time)), show(el('span', 'ty u'), r.type < 0 ? 'not an event' : data.types[r.type]),
    el('span', 'sz', size(r.bytes)), show(el('span', 'ln u'), dataOf(r.line ?? '').slice(0, 240)));
  d.append(s);
  d.addEventListener('toggle', () => {
    if (!d.open || d.children.length > 1) return;
    if (r.line === undefined) { d.append(el('p', 'hint', 'Its text is not in this page: ', cat(r.seq, r.seq))); return; }
    d.append(show(el('pre', 'u'), pretty(r.line)));
    if (r.cut) d.append(el('p', 'hint', `The first part of ${size(r.bytes)}. All of it: `, cat(r.seq, r.seq)));
  });
  return d;
}

function runRow(run) {
  const d = el('details', 'run'), first = run[0], last = run[run.length - 1];
  const bytes = run.reduce((n, r) => n + r.bytes, 0);
  d.append(el('summary', '', `${run.length} × ${data.types[delta]}, seq ${first.seq} to ${last.seq}, ${size(bytes)}, within ${((last.time - first.time) / 1000).toFixed(1)} s`));
  d.addEventListener('toggle', () => { if (d.open && d.children.length < 2) pager(d, run.map(r => [r])); });
  return d;
}

// A window on a list of runs that grows on demand. It returns how to bring a seq
// into it.
function pager(parent, runs) {
  const list = el('ol', 'evs'), before = el('button', '', 'Show events before'), after = el('button', '', 'Show more events');
  let from = 0, to = 0;
  const row = run => { const li = el('li'); li.append(run.length > 1 ? runRow(run) : eventRow(run[0])); return li; };
  const buttons = () => { before.hidden = from === 0; after.hidden = to === runs.length; };
  const more = () => { const end = Math.min(to + PAGE, runs.length); list.append(...runs.slice(to, end).map(row)); to = end; buttons(); };
  const less = () => { const start = Math.max(0, from - PAGE); list.prepend(...runs.slice(start, from).map(row)); from = start; buttons(); };
  before.type = after.type = 'button';
  before.addEventListener('click', less);
  after.addEventListener('click', more);
  parent.append(el('div', 'pg', before), list, el('div', 'pg', after));
  more();
  return seq => {
    const i = runs.findIndex(run => run[0].seq <= seq && seq <= run[run.length - 1].seq);
    if (i < 0) return null;
    if (i < from || i >= to) { list.replaceChildren(); from = to = Math.max(0, i - 20); more(); }
    const d = list.children[i - from].firstChild;
    if (runs[i].length === 1) return d;
    if (d.children.length < 2) d.reach = pager(d, runs[i].map(r => [r]));
    d.open = true;
    return d.reach ? d.reach(seq) : $('#ev-' + seq, d);
  };
}

// Fills the list of events of a block, once.
const filled = new WeakMap();
function fill(raw) {
  if (!filled.has(raw)) filled.set(raw, (async () => {
    const first = +raw.dataset.first, last = +raw.dataset.last;
    let rows;
    try { rows = await events(first, last); }
    catch (err) { raw.append(el('p', 'note', 'This browser cannot unpack the events: ' + err.message)); return () => null; }
    const hint = $('.hint', raw);
    if (rows.length > 0) hint.hidden = true;
    return rows.length > 0 ? pager(raw, runsOf(rows)) : () => null;
  })());
  return filled.get(raw);
}
document.addEventListener('toggle', e => { if (e.target.matches?.('.raw') && e.target.open) fill(e.target); }, true);

const policy = window.trustedTypes?.createPolicy('report', { createHTML: html => html }) ?? { createHTML: html => html };

function inhabit(block) {
  const kept = $(':scope > .in > noscript', block);
  if (kept) kept.parentElement.innerHTML = policy.createHTML(kept.textContent);
}
document.addEventListener('click', e => {
  const summary = e.target.closest?.('summary');
  if (summary) inhabit(summary.parentElement);
}, true);
document.addEventListener('toggle', e => { if (e.target.matches?.('details.b')) inhabit(e.target); }, true);

// A browser's own search finds what is there: as long as it is not too much, all
// of it is made while nothing else is to be done.
const IDLE_BLOCKS = 2000;
function inhabitAll(from) {
  const idle = window.requestIdleCallback ?? (f => setTimeout(() => f({ timeRemaining: () => 8 }), 50));
  idle(deadline => {
    let i = from;
    while (i < blocks.length && i < IDLE_BLOCKS && (i === from || deadline.timeRemaining() > 4)) inhabit(blocks[i++].e);
    if (i < blocks.length && i < IDLE_BLOCKS) inhabitAll(i);
  });
}

// Going to a seq.
const blocks = $$('#timeline > .b[data-first]').map(e => ({ e, first: +e.dataset.first, last: +e.dataset.last }));

function blockOf(seq) {
  let low = 0, high = blocks.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (blocks[mid].last < seq) low = mid + 1; else high = mid;
  }
  const b = blocks[low];
  return b && b.first <= seq ? b : null;
}

let here = null;
function mark(e) {
  here?.classList.remove('here');
  here = e;
  e.classList.add('here');
  reach(e, 10);
}

// What is on the way gets its true height when it comes into view: that may move
// what is wanted out of it again.
function reach(e, tries) {
  e.scrollIntoView({ block: 'center' });
  requestAnimationFrame(() => {
    const r = e.getBoundingClientRect();
    if (tries > 0 && (r.bottom < 80 || r.top > innerHeight - 20)) reach(e, tries - 1);
  });
}

async function go(seq, toEvent) {
  const b = blockOf(seq);
  if (!b) { say(`there is no seq ${seq}`); return; }
  b.e.hidden = false;
  if (b.e.tagName === 'DETAILS') { inhabit(b.e); b.e.open = true; }
  const item = document.getElementById('seq-' + seq), raw = $('.raw', b.e);
  if (item && !toEvent || !raw) { mark(item ?? b.e); return; }
  raw.open = true;
  const row = (await fill(raw))(seq);
  if (row) row.open = true;
  mark(row ?? item ?? b.e);
}

function follow() {
  const m = /^#seq-(\d+)$/.exec(location.hash);
  if (m) go(+m[1], false);
}
addEventListener('hashchange', follow);
document.addEventListener('click', e => {
  const a = e.target.closest?.('a[href^="#seq-"]');
  if (a && a.getAttribute('href') === location.hash) follow(); // no hashchange comes
});

// Searching.
const q = $('#q'), found = $('#found'), problems = $('#problems');
let matches = [], at = -1, hits = null, search = 0;
const say = text => { found.textContent = text; };

// What a text looks like in lines of JSON, in lower case.
function wanted(text) {
  const low = text.toLowerCase(), quoted = JSON.stringify(low).slice(1, -1);
  const unescape = line => line.replace(/\\u([0-9a-f]{4})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)).toLowerCase());
  return line => {
    const l = line.toLowerCase();
    return l.includes(quoted) || l.includes('\\u') && unescape(l).includes(quoted);
  };
}

async function find() {
  const mine = ++search, text = q.value.trim();
  matches = []; at = -1; hits = null;
  if (text !== '') {
    const test = wanted(text);
    for (const [i, p] of parts.entries()) {
      let rows;
      try { rows = await rowsOf(p); } catch (err) { say('this browser cannot unpack the events'); return; }
      if (mine !== search) return;
      for (const r of rows) if (matches.length < MOST_MATCHES && r.line !== undefined && test(r.line)) matches.push(r.seq);
      if (i % 4 === 3) { say(`searching … ${Math.round(100 * (i + 1) / parts.length)} %`); await new Promise(r => setTimeout(r)); }
      if (mine !== search) return;
    }
    hits = new Set();
    for (const seq of matches) { const b = blockOf(seq); if (b) hits.add(b.e); }
  }
  filter();
  const blocksText = hits ? ` in ${hits.size} ${hits.size === 1 ? 'place' : 'places'}` : '';
  say(text === '' ? '' : matches.length === 0 ? 'nothing found' : `${matches.length}${matches.length === MOST_MATCHES ? ' or more' : ''} ${matches.length === 1 ? 'event' : 'events'}${blocksText}`);
}

function filter() {
  let left = 0;
  for (const { e } of blocks) {
    const bad = e.dataset.errors !== undefined || e.dataset.class !== undefined && e.dataset.class !== 'good';
    e.hidden = hits !== null && !hits.has(e) || problems.checked && !bad;
    if (!e.hidden) left++;
  }
  for (const e of $$('#timeline > .own')) e.hidden = hits !== null || problems.checked;
  $('#none').hidden = left > 0 || blocks.length === 0;
}

function step(by) {
  const text = q.value.trim(), m = /^#?(?:seq[- :]?)?(\d+)$/.exec(text);
  if (m && +m[1] < data.next && (matches.length === 0 || by > 0 && at < 0)) { go(+m[1], false); if (matches.length === 0) return; at = matches.length - 1; return; }
  if (matches.length === 0) return;
  at = (at + by + matches.length) % matches.length;
  say(`${at + 1} of ${matches.length}: seq ${matches[at]}`);
  go(matches[at], true);
}

let waiting = 0;
q.addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(find, 250); });
q.addEventListener('search', () => { if (q.value === '') find(); });
problems.addEventListener('change', filter);
$('#find').addEventListener('submit', async e => {
  e.preventDefault();
  if (hits === null && q.value.trim() !== '') { clearTimeout(waiting); await find(); }
  step(1);
});
$('#prev').addEventListener('click', () => step(-1));
$('#unfold').addEventListener('click', () => { for (const { e } of blocks) if (!e.hidden && e.tagName === 'DETAILS') { inhabit(e); e.open = true; } });
$('#fold').addEventListener('click', () => { for (const { e } of blocks) if (e.tagName === 'DETAILS') e.open = false; });

// Keys.
function move(by) {
  // What is between turns and not worth a line is passed over, unless it was found.
  const list = blocks.filter(b => !b.e.hidden && b.e.tagName === 'DETAILS' && (hits || !b.e.classList.contains('slim'))).map(b => b.e);
  if (list.length === 0) return;
  const current = document.activeElement?.closest?.('#timeline > details.b');
  let i = list.indexOf(current);
  if (i < 0) {
    const middle = innerHeight / 3;
    i = list.findIndex(e => e.getBoundingClientRect().bottom > middle);
    if (i < 0) i = list.length - 1;
    else if (by > 0) i -= 1;
  }
  const next = list[Math.max(0, Math.min(list.length - 1, i + by))];
  $('summary', next).focus({ preventScroll: true });
  next.scrollIntoView({ block: next.open ? 'start' : 'center' });
}
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
  if (e.target.matches?.('input, textarea, select') && e.target.type !== 'checkbox') {
    if (e.key === 'Escape') { q.value = ''; find(); q.blur(); }
    return;
  }
  if (!$('#keys').checked) return;
  switch (e.key) {
    case 'j': move(1); break;
    case 'k': move(-1); break;
    case 'n': step(1); break;
    case 'p': step(-1); break;
    case '/': q.focus(); q.select(); break;
    case 'e': {
      const block = document.activeElement?.closest?.('#timeline > details.b');
      if (!block) return;
      inhabit(block);
      const raw = $('.raw', block);
      raw.open = !(block.open && raw.open);
      block.open = true;
      break;
    }
    default: return;
  }
  e.preventDefault();
});

for (const pre of $$('pre[data-json]')) {
  if (pre.children.length === 0) pre.textContent = pretty(pre.textContent);
}
$('#find').hidden = $('#tools').hidden = false;
follow();
inhabitAll(0);
})();
