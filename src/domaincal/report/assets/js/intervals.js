// Small drawings inside tables: values and intervals on one scale for all rows.
const WIDTH = 160;
const MARGIN = 8;

function scale(low, high) {
  const span = high - low || 1;
  return (x) => MARGIN + ((WIDTH - 2 * MARGIN) * (Math.min(Math.max(x, low), high) - low)) / span;
}

// Shapes as well as colours tell marks apart.
const SHAPES = {
  square: (x, y) => drawing('rect', { x: x - 4, y: y - 4, width: 8, height: 8 }),
  circle: (x, y) => drawing('circle', { cx: x, cy: y, r: 5 }),
  diamond: (x, y) => drawing('path', { d: `M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z` }),
  triangle: (x, y) => drawing('path', { d: `M${x} ${y - 6}L${x + 6} ${y + 5}L${x - 6} ${y + 5}Z` }),
};

// marks: [{kind: 'line', from, to} or {kind: a shape, at}, each with a class]; values already scaled.
function strip(marks, zero = null) {
  const y = 12;
  const children = [drawing('path', { class: 'rail', d: `M${MARGIN} ${y}H${WIDTH - MARGIN}` })];
  if (zero !== null) children.push(drawing('path', { class: 'zero', d: `M${zero} 1V23` }));
  for (const mark of marks) {
    const node = mark.kind === 'line'
      ? drawing('path', { d: `M${mark.from} ${y}H${mark.to}` })
      : SHAPES[mark.kind](mark.at, y);
    node.setAttribute('class', `${mark.kind === 'line' ? 'bar-line' : 'dot'} ${mark.class || ''}`);
    children.push(node);
  }
  // The numbers stand beside it in the row, for those who do not see it.
  return drawing('svg', { class: 'strip', viewBox: `0 0 ${WIDTH} 24`, width: WIDTH, height: 24, 'aria-hidden': 'true' }, ...children);
}

// Both ends of the scale, for the head of the column.
function ends(low, high) {
  return element('span', { class: 'ends', 'aria-hidden': 'true' }, element('span', {}, low), element('span', {}, high));
}
