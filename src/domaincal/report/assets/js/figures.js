// Figures by Plotly: drawn when they come near the window, drawn again for another theme or width.
const figures = [];
let printing = false;
let lastClick = -Infinity;
const ONE_TAP = 400; // milliseconds: a tap on a touch screen comes as two clicks
const PRINTED_WIDTH = { pair: 325, single: 325 };

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ['ink', 'muted', 'line', 'paper', 'raised', 'before', 'after', 'reference'];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// build(colours, width) gives {data, layout}; describe() gives the text of those who do not see it.
function addFigure(id, kind, build, describe) {
  const host = byId(id);
  const figure = { host, kind, build, describe, drawn: false, width: 0 };
  host.setAttribute('role', 'img');
  host.setAttribute('aria-label', describe());
  figures.push(figure);
  near.observe(host);
  return figure;
}

function draw(figure) {
  const { host } = figure;
  const palette = colours();
  const width = printing ? PRINTED_WIDTH[figure.kind] : Math.floor(host.clientWidth);
  if (width < 50) return;
  const { data, layout } = figure.build(palette, width);
  const family = getComputedStyle(document.body).fontFamily;
  const base = {
    width, height: layout.height || Math.round(Math.min(width, 520)),
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', showlegend: false,
    hovermode: 'closest', hoverdistance: 24, dragmode: false,
    font: { family, size: 13, color: palette.ink },
    margin: { l: 56, r: 20, t: 12, b: 50 },
    hoverlabel: {
      bgcolor: palette.raised, bordercolor: palette.muted, align: 'left',
      font: { family, color: palette.ink, size: 13 }, namelength: 0,
    },
  };
  if (figure.drawn) Plotly.Fx.unhover(host); // the text of a point that may be gone
  Plotly.react(host, data, { ...base, ...layout }, { displayModeBar: false, doubleClick: false, showTips: false });
  if (!figure.drawn) {
    figure.drawn = true;
    host.on('plotly_click', (event) => {
      const name = event.points.map((point) => host.names && host.names[point.customdata]).find(known);
      if (!known(name) || performance.now() - lastClick < ONE_TAP) return;
      lastClick = performance.now();
      choice.toggle(name);
    });
    resized.observe(host);
  }
  figure.width = width;
  host.setAttribute('aria-label', figure.describe());
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const figure = figures.find((f) => f.host === entry.target);
    if (entry.isIntersecting && !figure.drawn) draw(figure);
  }
}, { rootMargin: '300px' });

const resized = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const figure = figures.find((f) => f.host === entry.target);
    if (!printing && Math.abs(Math.floor(figure.host.clientWidth) - figure.width) > 2) draw(figure);
  }
});

const redraw = () => figures.filter((figure) => figure.drawn).forEach(draw);

function print(on) {
  if (printing === on) return;
  printing = on;
  document.documentElement.classList.toggle('printing', on);
  (on ? figures : figures.filter((figure) => figure.drawn)).forEach(draw);
}

function axis(palette, title, more = {}) {
  return {
    title: { text: title, standoff: 10, font: { size: 13, color: palette.muted } },
    gridcolor: palette.line, linecolor: palette.line, tickcolor: palette.line, zeroline: false,
    tickfont: { color: palette.muted, size: 12 }, fixedrange: true, automargin: false, ...more,
  };
}

// The diagonal, on which both axes agree.
function diagonal(palette, low, high, nPoints = 0) {
  const crowded = nPoints > 200; // it would be hidden below so many
  return { type: 'line', layer: crowded ? 'above' : 'below', x0: low, y0: low, x1: high, y1: high,
    line: { color: crowded ? palette.ink : palette.reference, width: 1.5, dash: 'dash' } };
}
