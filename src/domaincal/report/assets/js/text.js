// Numbers and names as text, and elements that hold them. Nothing here ever parses text as HTML.
const DASH = '–';
const known = (x) => x !== null && x !== undefined;
const percent = (x, digits = 1) => (known(x) ? `${(100 * x).toFixed(digits)}%` : DASH);
const points = (x) => (known(x) ? minus((100 * x).toFixed(1)) : DASH);
const decimal = (x, digits = 2) => (known(x) ? minus(x.toFixed(digits)) : DASH);
const count = (x) => (known(x) ? x.toLocaleString('en-US') : DASH);
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;

function minus(text) {
  return Number(text) === 0 ? text.replace('-', '') : text.replace('-', '−');
}

// Control characters and marks of direction would change the text around a name.
function plain(name) {
  const text = name.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, ' ');
  return text.trim() || '(no name)';
}

const segmenter = window.Intl && Intl.Segmenter ? new Intl.Segmenter() : null;

// The start and the end of a long text; emoji and accents stay whole.
function shortened(text, width) {
  if (text.length <= width) return text;
  const start = text.slice(0, 40 * width);
  const signs = segmenter ? Array.from(segmenter.segment(start), (s) => s.segment) : Array.from(start);
  if (signs.length <= width && start.length === text.length) return text;
  const tail = Math.floor((width - 1) / 3);
  const last = Array.from(text.slice(-4 * tail)).slice(-tail).join('');
  return `${signs.slice(0, width - 1 - tail).join('')}…${last}`;
}

// Plotly reads a few tags in its texts; the name is kept apart from the direction of the text around it.
function forPlotly(name, width = 36) {
  const text = shortened(plain(name), width);
  return `\u2068${text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')}\u2069`;
}

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (known(value) && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter(known));
  return node;
}

function drawing(tag, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Text that may be broken where it has line ends, without spaces there.
function breakable(text) {
  return text.split('\n').flatMap((word, k) => (k ? [element('wbr'), word] : [word]));
}

// A name in its own direction, with the whole of it as the title if it is long.
function nameText(name, width = 44) {
  const text = plain(name);
  const short = shortened(text, width);
  const title = short === text ? null : shortened(text, 2000);
  return element('bdi', { title }, ...breakable(short.replace(/[-_./]+(?=.)/g, '$&\n')));
}
