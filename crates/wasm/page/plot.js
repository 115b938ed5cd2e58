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

/** The colour of each stage, always the same: a hue for where its time passes, a shade for the stage. */
function stageColours(stages) {
  const hues = { host: 212, link: 28, device: 282, media: 145 };
  const seen = {};
  const colours = new Map(stages.map(({ stage, part }) => {
    const place = (seen[part] = (seen[part] ?? -1) + 1);
    return [stage, shade(hues[part], place)];
  }));
  // Stages of a software stack are named by the description, and told apart by their names.
  const sum = (name) => [...name].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 997, 0);
  return (stage) => colours.get(stage) ?? shade(hues.host - 20, sum(stage));
}

/** Light enough for dark text on it; neighbours differ. */
const shade = (hue, place) => `hsl(${hue + 9 * ((place % 5) - 2)} ${52 + 12 * (place % 3)}% ${[70, 80, 63, 75][place % 4]}%)`;

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
function stackedBar(parts, whole, label) {
  const [width, height] = [900, 40];
  let left = 0;
  const drawn = parts.map(({ name, value, colour, figure }) => {
    const [x, wide] = [left, (value / whole) * width];
    left += wide;
    const text = 6.8 * name.length + 8 <= wide
      ? `<text class="inside" x="${x + wide / 2 - 1}" y="24">${escaped(name)}</text>` : "";
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

/** Lines over depths, which double from place to place: lines are { name, colour, values }, `limit` is dashed. */
function lines(depths, series, { label, unit, now, limit }) {
  const [width, height, left, top, bottom] = [440, 230, 62, 24, 36];
  const most = Math.max(...series.flatMap((line) => line.values), limit?.value ?? 0);
  const marks = ticks(most || 1);
  const x = (depth) => left + 8 + (Math.log2(depth / depths[0]) / Math.log2(depths.at(-1) / depths[0])) * (width - left - 24);
  const y = (value) => height - bottom - (value / marks.at(-1)) * (height - bottom - top);
  const horizontal = marks.map((mark) => `<line class="grid" x1="${left}" x2="${width}" y1="${y(mark)}" y2="${y(mark)}"/>` +
    `<text x="${left - 6}" y="${y(mark) + 4}" text-anchor="end">${quantity(mark, unit).replace(/\.0+(?= |$)/, "")}</text>`);
  const vertical = depths.map((depth) => `<text x="${x(depth)}" y="${height - bottom + 16}" text-anchor="middle">${depth}</text>`);
  const drawn = series.map(({ colour, values }) => {
    const points = values.map((value, place) => `${x(depths[place])},${y(value)}`);
    const dots = points.map((point) => point.split(","));
    return `<polyline points="${points.join(" ")}" stroke="${colour}"/>` + dots.map(([cx, cy], place) =>
      `<circle cx="${cx}" cy="${cy}" r="${depths[place] === now ? 5 : 2.5}" fill="${colour}"/>`).join("");
  });
  const bound = limit && `<line x1="${left}" x2="${width}" y1="${y(limit.value)}" y2="${y(limit.value)}" stroke="var(--quiet)"` +
    ` stroke-dasharray="5 4"/><text x="${width}" y="${y(limit.value) - 5}" text-anchor="end">${escaped(limit.name)}</text>`;
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(label)}">${horizontal.join("")}${vertical.join("")}` +
    `${bound ?? ""}${drawn.join("")}<text x="${(left + width) / 2}" y="${height - 4}" text-anchor="middle">depth of each thread</text></svg>`;
}

/** Steps of a request with time running down, a row each: host on the left, device on the right, packets between. */
function ladderDrawing(steps, colours, label) {
  const [width, high, top, host, device] = [800, 20, 30, 300, 640];
  const start = steps[0].from_ns;
  const rows = steps.map((step, place) => {
    const y = top + place * high;
    const time = `<text x="62" y="${y + 14}" text-anchor="end">${(step.from_ns - start).toFixed(1)}</text>`;
    const long = (step.to_ns - step.from_ns).toFixed(1);
    const what = `${step.what}${step.packets > 1 ? ` ×${step.packets}` : ""}`;
    if (step.who === "up" || step.who === "down") {
      const [from, to] = step.who === "up" ? [device, host] : [host, device];
      const head = to + (step.who === "up" ? 7 : -7);
      const dashed = step.what.startsWith("empty") ? ' stroke-dasharray="3 4"' : "";
      return `${time}<line x1="${from}" x2="${head}" y1="${y + 16}" y2="${y + 16}" stroke="${colours.link}" stroke-width="1.5"${dashed}/>` +
        `<path d="M${to} ${y + 16} L${head} ${y + 12.5} L${head} ${y + 19.5} Z" fill="${colours.link}"/>` +
        `<text class="main" x="${(host + device) / 2}" y="${y + 12}" text-anchor="middle">${escaped(what)}, ${step.wire_bytes} B (${long})</text>`;
    }
    const at = step.who === "host" ? `x="${host - 12}" text-anchor="end"` : `x="${device + 12}"`;
    const edge = step.who === "host" ? host - 4 : device;
    return `${time}<rect x="${edge}" y="${y + 3}" width="4" height="${high - 5}" fill="${colours[step.who]}"/>` +
      `<text class="main" ${at} y="${y + 14}">${escaped(what)} (${long})</text>`;
  });
  const bottom = top + steps.length * high + 8;
  const rail = (x, name, anchor) => `<line class="grid" x1="${x}" x2="${x}" y1="${top - 6}" y2="${bottom}"/>` +
    `<text x="${x}" y="14" text-anchor="${anchor}">${name}</text>`;
  return `<svg class="ladder" viewBox="0 0 ${width} ${bottom}" role="img" aria-label="${escaped(label)}">` +
    `<text x="62" y="14" text-anchor="end">ns</text>${rail(host, "host", "end")}${rail(device, "device", "start")}` +
    `<text x="${(host + device) / 2}" y="14" text-anchor="middle">link: packets, bytes on the wire (ns on the way)</text>${rows.join("")}</svg>`;
}
