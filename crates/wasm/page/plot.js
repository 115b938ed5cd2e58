// Plots as text of SVG, and the tables behind them. Nothing here knows where figures come from.

const escaped = (text) => String(text).replace(/[&<>"]/g, (it) => `&#${it.charCodeAt(0)};`);

/** A value with a prefix of its unit: 1234567 as 1.23 M. */
function quantity(value, unit = "") {
  if (value == null) return "–";
  if (value === 0) return `0 ${unit}`.trim();
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  // Rounded first, so that 999.96 becomes 1.00 k.
  const rounded = Number(value.toPrecision(3));
  const [size, prefix] = steps.find(([size]) => Math.abs(rounded) >= size) ?? steps.at(-1);
  const digits = rounded / size >= 100 ? 0 : rounded / size >= 10 ? 1 : 2;
  return `${(rounded / size).toFixed(digits)} ${prefix}${unit}`.trim();
}

const seconds = (ns) => quantity(ns == null ? null : ns / 1e9, "s");
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

/** The colour of each stage, as the program's reports have it: a hue for where its time passes, a shade for the stage. */
function stageColours({ stages, stack_colours }) {
  const colours = new Map(stages.map(({ stage, colour }) => [stage, colour]));
  return (stage, stack) => colours.get(stage) ?? stack_colours[Math.max(0, stack.length - 1 - stack.indexOf(stage)) % stack_colours.length];
}

/** A table; columns are [head, whether it is of numbers], the first cell of a row names it, and cells are HTML. */
function table(caption, columns, rows) {
  const kind = (place) => (columns[place][1] ? ' class="number"' : "");
  const head = columns.map(([name], place) => `<th scope="col"${kind(place)}>${name}</th>`).join("");
  const body = rows.map((cells) => `<tr>${cells.map((cell, place) => {
    if (place === 0) return `<th scope="row"${kind(0)}>${cell}</th>`;
    return String(cell).startsWith("<td") ? cell : `<td${kind(place)}>${cell}</td>`;
  }).join("")}</tr>`).join("\n");
  return `<div class="wide"><table><caption>${caption}</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
}

const tableBehind = (...parts) => `<details><summary>The figures as a table</summary>${table(...parts)}</details>`;

/** Parts of a whole as one bar: [{ name, value, colour, figure }]. */
function stackedBar(parts, whole, label, height = 40) {
  const width = 900;
  let left = 0;
  const drawn = parts.map(({ name, value, colour, figure }) => {
    const [x, wide] = [left, (value / whole) * width];
    left += wide;
    const text = 6.8 * name.length + 8 <= wide
      ? `<text class="inside" x="${x + wide / 2 - 1}" y="${height / 2 + 4}">${escaped(name)}</text>` : "";
    return `<g><title>${escaped(name)}: ${figure}</title><rect x="${x}" width="${Math.max(wide - 2, 0.5)}" height="${height}"` +
      ` rx="2" fill="${colour}"/>${text}</g>`;
  });
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(label)}">` +
    `<rect class="track" width="${width}" height="${height}" rx="3"/>${drawn.join("")}</svg>`;
}

/** A share of a whole as a cell of a table. */
const barCell = (share, colour) =>
  `<td class="bar" aria-hidden="true"><i style="width:${(100 * share).toFixed(2)}%;background:${colour}"></i></td>`;

/** Values up to a bit above `most`, at round distances. */
function ticks(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((it) => it * power).find((it) => it >= rough);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, place) => place * step);
}

/** Room of a plot: its size, and the margins of the plotting area. */
const PLOT = { width: 330, height: 215, left: 56, right: 14, top: 24, bottom: 36 };

/** Tick texts, without digits that say nothing. */
const tickText = (value, unit) => quantity(value, unit).replace(/\.0+(?= |$)/, "");

/**
 * Lines through points: lines are { colour, dashed, points: [{ x, y, title, isNow }] }, the axes { name, unit, isDoubling }.
 * `bound` is a dashed level with a name; one far above all lines is left out.
 */
function plotted(lines, { label, x, y, bound }) {
  const { width, height, left, right, top, bottom } = PLOT;
  const all = lines.flatMap((line) => line.points);
  const highest = Math.max(...all.map((point) => point.y));
  const level = bound && bound.value <= 3 * highest ? bound : undefined;
  const up = ticks(Math.max(highest, level?.value ?? 0) || 1);
  const xs = all.map((point) => point.x);
  const [least, most] = [Math.min(...xs), Math.max(...xs)];
  const over = x.isDoubling ? [...new Set(xs)].sort((one, two) => one - two) : ticks(most || 1);
  const room = width - left - right - 8;
  const share = x.isDoubling ? (at) => Math.log2(at / least) / (Math.log2(most / least) || 1) : (at) => at / over.at(-1);
  const px = (at) => (left + 8 + share(at) * room).toFixed(1);
  const py = (at) => (height - bottom - (at / up.at(-1)) * (height - bottom - top)).toFixed(1);
  const horizontal = up.map((mark) => `<line class="grid" x1="${left}" x2="${width}" y1="${py(mark)}" y2="${py(mark)}"/>` +
    `<text x="${left - 6}" y="${Number(py(mark)) + 4}" text-anchor="end">${tickText(mark, y.unit)}</text>`);
  const apart = (mark, place) => place % Math.ceil((over.length * 26) / room) === 0;
  const vertical = over.filter(x.isDoubling ? apart : (mark, place) => place % 2 === 0 || over.length < 5).map((mark) => `<text x="${px(mark)}" y="${height - bottom + 16}" text-anchor="middle">${tickText(mark, x.unit)}</text>`);
  const drawn = lines.map(({ colour, dashed, points }) => {
    const joined = points.map((point) => `${px(point.x)},${py(point.y)}`).join(" ");
    const dots = points.map((point) => `<circle cx="${px(point.x)}" cy="${py(point.y)}" r="${point.isNow ? 5.5 : 2.5}" fill="${colour}"` +
      `${point.isNow ? ' class="now"' : ""}><title>${escaped(point.title)}</title></circle>`);
    return `<polyline points="${joined}" stroke="${colour}"${dashed ? ' stroke-dasharray="5 4" opacity=".75"' : ""}/>${dots.join("")}`;
  });
  const drawnBound = level ? `<line class="bound" x1="${left}" x2="${width}" y1="${py(level.value)}" y2="${py(level.value)}"/>` +
    `<text class="halo" x="${width}" y="${Number(py(level.value)) - 5}" text-anchor="end">${escaped(level.name)}</text>` : "";
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(label)}">` +
    `<text x="4" y="12">${escaped(y.name)}</text>${horizontal.join("")}${vertical.join("")}${drawnBound}${drawn.join("")}` +
    `<text x="${(left + width) / 2}" y="${height - 3}" text-anchor="middle">${escaped(x.name)}</text></svg>`;
}
