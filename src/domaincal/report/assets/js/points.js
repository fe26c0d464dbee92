// Traces of points that stand for domains: squares before and circles after calibration, filled for
// unseen and open for known domains. A chosen one keeps its colour, the others turn pale.
function pointTraces(palette, when, { x, y, names, texts, kinds, error_x, error_y }) {
  const colour = palette[when];
  const shape = when === 'before' ? 'square' : 'circle';
  const size = x.length > 1500 ? 5 : x.length > 200 ? 7 : 10;
  const all = x.map((_, k) => k).filter((k) => known(x[k]) && known(y[k]));
  const chosen = choice.name;
  const traces = [];
  const add = (indices, style, named) => {
    if (!indices.length) return;
    const pick = (values) => indices.map((k) => values[k]);
    const bars = (e) => e && { type: 'data', symmetric: false, array: pick(e.plus), arrayminus: pick(e.minus),
      color: style.colour, thickness: 1, width: 0 };
    traces.push({
      type: 'scatter', mode: 'markers', x: pick(x), y: pick(y), customdata: indices,
      text: named ? pick(texts) : undefined, hoverinfo: named ? 'text' : 'skip',
      marker: { color: style.colour, symbol: style.symbol, size: style.size || size, opacity: style.opacity,
        line: { color: style.open ? style.colour : palette.paper, width: style.open ? 1.5 : size > 5 ? 1 : 0 } },
      error_x: named ? bars(error_x) : undefined, error_y: named ? bars(error_y) : undefined,
    });
  };
  const others = chosen === null ? [] : all.filter((k) => names[k] !== chosen);
  add(others, { colour: palette.muted, symbol: shape, opacity: 0.18 }, false);
  for (const [kind, symbol, open] of [['unseen', shape, false], ['known', `${shape}-open`, true]]) {
    add(all.filter((k) => kinds[k] === kind && (chosen === null || names[k] === chosen)),
      { colour, symbol, open, opacity: chosen === null && x.length > 1500 ? 0.4 : 0.9, size: chosen === null ? size : 13 }, true);
  }
  return traces;
}

// Name and numbers of a point, as Plotly shows them.
function pointText(name, lines) {
  return [`<b>${forPlotly(name)}</b>`, ...lines].join('<br>');
}

// Ends of an axis that holds all values, with a margin, within the limits.
function range(values, { from = -Infinity, to = Infinity, margin = 0.06 } = {}) {
  const numbers = values.filter(known);
  if (!numbers.length) return [0, 1];
  let [low, high] = [Infinity, -Infinity];
  for (const x of numbers) { low = Math.min(low, x); high = Math.max(high, x); }
  const space = margin * (high - low || 0.2);
  return [Math.max(from, low - space), Math.min(to, high + space)];
}
