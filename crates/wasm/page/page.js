// The page: answers drawn, and the controls that change the settings.

const DEPTHS = powers(1, 256);
/** Requests of a first look, while the whole answer takes longer. */
const QUICK_IOS = 500;

let catalog, colourOf;
/** Drawn answers, and the time that they took. */
let shown = {};

// ---- figures of an answer ----

/** Results of the one job's reads and writes, as far as it has them. */
const directions = (result) => ["read", "write"].map((name) => ({ name, ...result.phaselink.jobs[0][name] })).filter((it) => it.ios);
const total = (result, figure) => result.jobs.reduce((sum, it) => sum + it.read[figure] + it.write[figure], 0);

function mean(result, figure) {
  const all = directions(result);
  const ios = all.reduce((sum, it) => sum + it.ios, 0);
  return all.reduce((sum, it) => sum + figure(it) * it.ios, 0) / ios;
}

const meanLatency = (result) => mean(result, (it) => it.latency_ns.mean);
const tail = (result) => Math.max(...directions(result).map((it) => it.latency_ns.percentile.p99 ?? it.latency_ns.max));
/** Names of the stages of the drive's software stack. */
const stackOf = (result) => (result.phaselink.description.stack?.stages ?? []).map((it) => it.name);

/** Mean time of all requests in each stage, in ns, the longest first. */
function stageMeans(result) {
  const sums = new Map();
  for (const { name: _, ios, stages } of directions(result)) {
    for (const { stage, mean_ns } of stages) sums.set(stage, (sums.get(stage) ?? 0) + mean_ns * ios);
  }
  const ios = directions(result).reduce((sum, it) => sum + it.ios, 0);
  return [...sums].map(([stage, ns]) => ({ stage, ns: ns / ios })).sort((one, two) => two.ns - one.ns);
}

const PARTS = { host: "host", link: "link", device: "device", media: "memory" };
const partOf = (stage) => catalog.stages.find((it) => it.stage === stage)?.part ?? "host";

/** Share of each part of the system in the time of requests. */
function partShares(result) {
  const means = stageMeans(result);
  const whole = means.reduce((sum, it) => sum + it.ns, 0);
  return catalog.parts.map(({ part, colour }) => ({
    part, colour, share: means.filter((it) => partOf(it.stage) === part).reduce((sum, it) => sum + it.ns, 0) / whole,
  }));
}

/** Figures of a result as the program names them, and the stage in which its requests spend most time. */
const figuresOf = (result) => ({ ...result.phaselink.figures, longest: stageMeans(result)[0]?.stage });

// ---- answers drawn ----

/** The answer in words: of an example's question first, then what the simulation found, then the comparison. */
function sentences(result, was, note) {
  const found = result.phaselink.findings.map((it) => it.sentence.replace(/(\d) us\b/g, "$1 µs"));
  const asked = EXAMPLES.find((it) => isChosen(it.settings) && (was || !it.settings.vs));
  const answer = asked && !note ? `${asked.question} ${asked.answer(figuresOf(result), was && figuresOf(was))}` : undefined;
  return [answer, was && comparison(result, was), ...found, measuredState(result), knownBy(result), note].filter(Boolean);
}

function measuredState(result) {
  const { state, reason, warm_up_ios } = result.phaselink.measured;
  if (state === "burst") return `Measured in a burst: ${reason}.`;
  return state === "steady" ? `Measured in the steady state; the first ${warm_up_ios.toLocaleString("en")} requests are not counted.` : undefined;
}

/** How well the drive, its software and its host are known from measurements of machines. */
function knownBy(result) {
  const rows = result.phaselink.evidence;
  const names = (is) => rows.filter(is).map((it) => it.name).join(", ");
  const measured = rows.filter((it) => it.median_error_pct != null)
    .map((it) => `${it.median_error_pct.toFixed(1)} % over ${it.rows.toLocaleString("en")} with ${it.name}`);
  const papers = names((it) => it.rows === 0 && it.papers.length > 0);
  const none = names((it) => it.rows === 0 && it.papers.length === 0);
  const told = [
    measured.length && `Compared with measurements, the median error is ${measured.join(", ")}.`,
    papers && `Published results are reproduced with ${papers}.`, none && `Never measured: ${none}.`,
  ];
  return told.filter(Boolean).join(" ");
}

/** How a state is beside the pinned one, and which stage makes most of the difference. */
function comparison(result, was) {
  const [now, before] = [figuresOf(result), figuresOf(was)];
  const slower = now.mean_ns > before.mean_ns;
  const ratio = slower ? now.mean_ns / before.mean_ns : before.mean_ns / now.mean_ns;
  const pinned = difference(pinnedSettings(), chosen);
  if (ratio < 1.02) return `Beside the pinned ${pinned}: about the same latency, ${quantity(now.iops)} requests/s for ${quantity(before.iops)}.`;
  const old = new Map(stageMeans(was).map((it) => [it.stage, it.ns]));
  const gaps = stageMeans(result).map(({ stage, ns }) => ({ stage, gap: ns - (old.get(stage) ?? 0) }));
  for (const [stage, ns] of old) if (!gaps.some((it) => it.stage === stage)) gaps.push({ stage, gap: -ns });
  const largest = gaps.sort((one, two) => (slower ? two.gap - one.gap : one.gap - two.gap))[0];
  return `Beside the pinned ${pinned}: ${times(ratio)} as ${slower ? "slow" : "fast"} a request, ${seconds(Math.abs(now.mean_ns - before.mean_ns))} ` +
    `${slower ? "more" : "less"}, ${seconds(Math.abs(largest.gap))} of it in ${largest.stage}; ${quantity(now.iops)} requests/s for ${quantity(before.iops)}.`;
}

/** A change from the pinned value in words. */
function change(now, was) {
  if (now == null || was == null || !was) return "";
  const share = now / was - 1;
  if (Math.abs(share) < 0.0005) return "";
  return Math.abs(share) < 1 ? `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}` : `×${(now / was).toFixed(1)}`;
}

function drawAnswer(result, was, note) {
  const told = sentences(result, was, note).map((it) => `<p>${escaped(it)}</p>`).join("");
  if ($("told").innerHTML !== told) $("told").innerHTML = told;
  const of = figuresOf(result);
  $("short").textContent = `${quantity(of.iops)} requests/s, ${seconds(of.mean_ns)}`;
  drawTiles(result, was);
}

function drawTiles(result, was) {
  const both = directions(result).length > 1 ? ", reads / writes" : "";
  const spread = (key) => (it) => directions(it).map((one) => one.latency_ns.percentile[key] ?? one.latency_ns.max);
  const inWords = (values) => values.map(seconds).join(" / ");
  const tiles = [
    [quantity, (it) => [total(it, "iops")], "requests a second"], [(it) => quantity(it, "B/s"), (it) => [total(it, "bw_bytes")], "throughput"],
    [seconds, (it) => [meanLatency(it)], "mean latency"], [inWords, spread("p50"), `median${both}`], [inWords, spread("p99"), `99 % are faster${both}`],
  ].map(([told, read, name]) => {
    const say = (values) => (told === inWords ? told(values) : told(values[0]));
    const [now, before] = [read(result), was && read(was)];
    const beside = before ? `<span class="beside">${now.length === before.length ? `${now.map((it, place) => change(it, before[place]) || "the same").join(" / ")} for ` : ""}${say(before)} pinned</span>` : "";
    return `<div class="tile"><b>${say(now)}</b><span>${name}</span>${beside}</div>`;
  });
  const [busiest] = result.phaselink.usage;
  const busy = busiest ? `<div class="tile"><b>${percent(busiest.share)}</b><span>busy: ${escaped(busiest.resource)}, the busiest part</span></div>` : "";
  $("tiles").innerHTML = tiles.join("") + busy;
}

function drawStages(result, was) {
  const whole = Math.max(...[result, was].filter(Boolean).flatMap(directions).map((it) => it.total_ns));
  const shares = (it) => `<p class="keys parts">${partShares(it).map(({ part, colour, share }) =>
    `<span data-part="${part}"><i class="key" style="background:${colour}"></i>${PARTS[part]} ${percent(share)}</span>`).join("")}</p>`;
  const bar = (of, { name, stages, total_ns }, height) => {
    const parts = stages.map(({ stage, mean_ns }) => (
      { name: stage, value: mean_ns, colour: colourOf(stage, stackOf(of)), figure: `${seconds(mean_ns)}, ${percent(mean_ns / total_ns)}` }));
    const longest = parts.reduce((most, part) => (part.value > most.value ? part : most), parts[0]);
    return stackedBar(parts, whole, `Stages of a ${name}; the longest is ${longest.name}, ${longest.figure}`, height);
  };
  const pinned = was ? `<figure class="pinned"><figcaption>Pinned: ${escaped(difference(pinnedSettings(), chosen))}</figcaption>` +
    `${directions(was).map((it) => bar(was, it, 26)).join("")}${shares(was)}</figure>` : "";
  $("stages").innerHTML = shares(result) + directions(result).map((it) =>
    `<figure>${bar(result, it)}</figure>`).join("") + pinned + directions(result).map((it) => stageTable(result, was, it)).join("");
}

function stageTable(result, was, { name, stages, total_ns }) {
  const before = was && directions(was).find((it) => it.name === name);
  const rows = stages.map((it) => ({ ...it, old: before?.stages.find((one) => one.stage === it.stage)?.mean_ns ?? 0 }));
  for (const it of before?.stages ?? []) if (!rows.some((row) => row.stage === it.stage)) rows.push({ stage: it.stage, mean_ns: 0, old: it.mean_ns });
  const longest = Math.max(...rows.map((it) => it.mean_ns), 1e-9);
  const signed = (ns) => `${ns > 0 ? "+" : ns < 0 ? "−" : ""}${Math.abs(ns).toFixed(1)}`;
  const cells = rows.map(({ stage, mean_ns, old }) => [
    `<span class="key" style="background:${colourOf(stage, stackOf(mean_ns ? result : was))}"></span>${escaped(stage)}`, PARTS[partOf(stage)], mean_ns.toFixed(1),
    percent(mean_ns / total_ns), ...(before ? [old.toFixed(1), signed(mean_ns - old)] : []), barCell(mean_ns / longest, colourOf(stage, stackOf(result)))]);
  const columns = [["stage"], ["in"], ["ns", true], ["share", true], ...(before ? [["pinned, ns", true], ["difference", true]] : []), [""]];
  return table(`A ${name}: ${seconds(total_ns)} in the mean${before ? `, ${seconds(before.total_ns)} pinned` : ""}`, columns, cells);
}

/** Number of resources in the table; the others are far from busy. */
const LIMITS_MAX = 7;

function drawLimits(result, prediction, was) {
  const bounds = new Map(prediction.jobs[0].limits.map((it) => [it.resource, it]));
  const used = new Map(result.phaselink.usage.map((it) => [it.resource, it.share]));
  const names = [...used.keys(), ...[...bounds.keys()].filter((it) => !used.has(it))].slice(0, LIMITS_MAX);
  const before = was && new Map(was.phaselink.usage.map((it) => [it.resource, it.share]));
  const rows = names.map((name) => [
    escaped(name), used.has(name) ? percent(used.get(name)) : "–", barCell(used.get(name) ?? 0, "var(--series-1)"),
    ...(before ? [before.has(name) ? percent(before.get(name)) : "–"] : []),
    quantity(bounds.get(name)?.iops_max), quantity(bounds.get(name)?.bytes_per_s_max, "B/s")]);
  $("limits").innerHTML = table("The busiest parts", [["part"], ["utilisation", true], [""], ...(before ? [["pinned", true]] : []),
    ["upper bound, requests/s", true], ["upper bound, bytes/s", true]], rows);
}

function drawCurve(points, prediction, old) {
  if (points.length < 2) {
    $("curve").innerHTML = '<p class="quiet">This drive has one request outstanding at a time.</p>';
    return;
  }
  const [limit] = [...prediction.jobs[0].limits].sort((one, two) => one.iops_max - two.iops_max);
  const bound = limit && { name: `upper bound: ${limit.resource}`, value: limit.iops_max };
  const [one, two, three] = ["var(--series-1)", "var(--series-2)", "var(--pinned)"];
  const line = (of, x, y, colour, dashed) => ({
    colour, dashed, points: of.map((it) => ({ x: x(it), y: y(it), isNow: !dashed && it.depth === value("iodepth"),
      title: `depth ${it.depth}${dashed ? ", pinned" : ""}: ${quantity(total(it.result, "iops"))} requests/s, mean ${seconds(meanLatency(it.result))}, 99 % ${seconds(tail(it.result))}` })),
  });
  const [depth, iops] = [(it) => it.depth, (it) => total(it.result, "iops")];
  const [latency, p99] = [(it) => meanLatency(it.result) / 1e9, (it) => tail(it.result) / 1e9];
  const drawn = (x, y, colour) => [...(old ? [line(old, x, y, three, true)] : []), line(points, x, y, colour)];
  const overDepth = { name: "depth of each thread", unit: "", isDoubling: true };
  const [first, last] = [points[0], points.at(-1)];
  const key = (colour, name) => `<span><i class="key" style="background:${colour}"></i>${name}</span>`;
  const pinnedKey = old ? key(three, "pinned (dashed)") : "";
  const far = bound && bound.value > 3 * Math.max(...points.map(iops)) ? `<span>${escaped(bound.name)}, ${quantity(bound.value)}, far above</span>` : "";
  const figure = (plot, keys) => `<figure>${plot}<figcaption class="keys">${keys}${pinnedKey}</figcaption></figure>`;
  const rows = points.map((it) => [it.depth, quantity(iops(it)), seconds(meanLatency(it.result)), seconds(tail(it.result))]);
  $("curve").innerHTML = `<div class="pair">${figure(plotted(drawn(depth, iops, one), {
    label: `Requests a second over depth: ${quantity(iops(first))} at ${first.depth}, ${quantity(iops(last))} at ${last.depth}`,
    x: overDepth, y: { name: "requests a second", unit: "" }, bound,
  }), key(one, "simulated") + far)}${figure(plotted([...drawn(depth, latency, one), line(points, depth, p99, two)], {
    label: `Latency over depth: ${seconds(meanLatency(first.result))} in the mean at ${first.depth}, ${seconds(meanLatency(last.result))} at ${last.depth}`,
    x: overDepth, y: { name: "latency", unit: "s" },
  }), key(one, "mean") + key(two, "99 %"))}${figure(plotted(drawn(iops, latency, one), {
    label: `Mean latency over throughput: ${seconds(meanLatency(last.result))} at ${quantity(iops(last))} requests a second`,
    x: { name: "requests a second", unit: "" }, y: { name: "mean latency", unit: "s" },
  }), key(one, "a point for each depth"))}</div>` +
    tableBehind("Over depth", [["depth"], ["requests/s", true], ["mean latency", true], ["99 %", true]], rows);
}

function drawLadder({ steps, ladder }) {
  const rows = folded(steps);
  const colours = Object.fromEntries(catalog.parts.map(({ part, colour }) => [part, colour]));
  const label = `${steps.length} steps of one request, from ${steps[0].what} to ${steps.at(-1).what}`;
  const drawing = ($("scale").checked ? ladderToScale : ladderRows)(rows, colours, label);
  const left = steps.length - rows.length;
  $("ladder").innerHTML = `<p class="quiet">One request alone (depth 1), software at its mean time.${left ? ` ${left} steps that repeat are folded.` : ""}</p>` +
    `<div class="wide" tabindex="0" role="region" aria-label="Packet ladder">${drawing}</div>` +
    `<details><summary>The ladder as text</summary><pre tabindex="0">${escaped(ladder)}</pre></details>`;
}

// ---- following what is chosen ----

let busy = false, again = false;

/** Draws the settings' results: a first look, the answer, curves and ladder, until a setting changes. */
async function follow() {
  again = true;
  if (busy) return hurry();
  busy = true;
  while (again) {
    again = false;
    document.body.dataset.state = "busy";
    try {
      await draw();
      tellProblem();
    } catch (error) {
      if (!(error instanceof Stopped)) tellProblem(error);
    }
  }
  busy = false;
  document.body.dataset.state = "idle";
}

/** Shows a problem; none hides the last one. Of an answer that takes too long, the first look stays. */
function tellProblem(error) {
  const isLate = error instanceof TooLong && shown.first;
  $("problem").hidden = !error;
  $("problem").textContent = error?.message ?? "";
  document.body.classList.toggle("stale", Boolean(error) && !isLate);
  if (error && !isLate) $("told").innerHTML = `<p>${error instanceof TooLong ? "There is no answer yet." : "This cannot be simulated."}</p>`;
}

/** True if the whole answer takes so long that a first look is worth its time. */
const isLong = () => value("requests") > 2000 || value("bs") > 1 << 17 || (hasWrites() && !value("burst"));

/** A point of the curve; the deepest that a queue allows may be one less than a power of two, and beyond it is none. */
async function curvePoint(of, wanted) {
  for (const depth of [wanted, wanted - 1]) {
    // Few requests are enough for a curve, whatever the point has.
    const few = job(depth, of).map(([name, it]) => [name, name === "number_ios" ? `${Math.ceil(2000 / value("numjobs", of))}` : it]);
    try {
      return { depth, result: await ask(runQuestion(of, few)) };
    } catch (error) {
      if (error instanceof Stopped || error instanceof TooLong) throw error;
      if (depth !== wanted || depth === 1) return undefined;
    }
  }
}

/** Points of a curve over depths; none if the settings change meanwhile. */
async function curvePoints(of) {
  const points = [];
  for (const depth of DEPTHS) {
    if (again) throw new Stopped();
    const point = await curvePoint(of, depth);
    if (!point) break;
    points.push(point);
  }
  return points;
}

async function draw() {
  const begun = performance.now();
  const old = pinnedSettings();
  $("command").textContent = commandLine();
  shown = {};
  if (!known.has(JSON.stringify(runQuestion())) && isLong()) await firstLook(begun);
  const result = await ask(runQuestion());
  standAsDriveSays(result.phaselink.description);
  const prediction = (await ask(predictQuestion())).drives[0];
  shown = { ...shown, result };
  drawAll(result, prediction);
  shown.point_ms = performance.now() - begun;
  tellProblem();
  if (old) {
    shown.was = await ask(runQuestion(old));
    drawAll(result, prediction, shown.was);
  }
  shown.points = await curvePoints(chosen);
  shown.oldPoints = old && await curvePoints(old);
  drawCurve(shown.points, prediction, shown.oldPoints);
  shown.curve_ms = performance.now() - begun;
  shown.trace = await ask(traceQuestion());
  drawLadder(shown.trace);
  shown.knee = await drawAnswered("knee", kneeQuestion());
  shown.endurance = await drawAnswered("endurance", enduranceQuestion());
  shown.breakeven = await drawAnswered("breakeven", breakEvenQuestion());
}

/** Draws the answer of a verb in its own words, or says why there is none; returns the document. */
async function drawAnswered(id, question) {
  try {
    const { document, html } = await ask(question);
    $(id).innerHTML = html;
    return document;
  } catch (error) {
    if (error instanceof Stopped) throw error;
    $(id).innerHTML = `<p class="quiet">${escaped(error.message)}</p>`;
  }
}

/** A few requests from the first one on, drawn at once; the answer takes their place. */
async function firstLook(begun) {
  const first = await ask(runQuestion(chosen, quickJob(job(), QUICK_IOS)));
  const prediction = (await ask(predictQuestion())).drives[0];
  shown.first = first;
  drawAll(first, prediction, undefined, "First look at few requests; the whole answer is being simulated.");
  shown.first_ms = performance.now() - begun;
  document.body.classList.remove("stale");
}

function drawAll(result, prediction, was, note) {
  drawAnswer(result, was, note);
  drawStages(result, was);
  drawLimits(result, prediction, was);
}

// ---- controls ----

/** The place of the nearest value: an address may carry others, which stay as they are. */
function place(values, wanted) {
  const distance = (it) => Math.abs(it - wanted);
  return values.reduce((best, it, at) => (distance(it) < distance(values[best]) ? at : best), 0);
}

function stand(id, now) {
  const { values, told = String } = SLIDERS[id];
  $(id).value = place(values, now);
  $(id).setAttribute("aria-valuetext", told(now));
  document.querySelector(`[data-of=${id}]`).textContent = told(now);
}

/** Disables the sliders for which the interface has no key. */
function standAsDriveSays(description) {
  for (const id of OF_DRIVE) {
    const said = chosen[id] ?? description.link?.[id];
    $(id).disabled = said === undefined;
    stand(id, said ?? SLIDERS[id].values[0]);
  }
}

/** Sets the controls to the settings. */
function showChosen() {
  $("drive").value = isOwn() ? "" : value("drive");
  $("drive").disabled = isOwn();
  $("drive").options[0].hidden = !isOwn();
  $("summary").textContent = isOwn() ? "Its text is below." : catalog.drives.find((it) => it.name === value("drive"))?.summary ?? "";
  SECTIONS.forEach((id) => { $(id).value = chosen[id] ?? ""; });
  ["set", "text"].forEach((id) => { if ($(id).value !== (chosen[id] ?? "")) $(id).value = chosen[id] ?? ""; });
  ["bs", "iodepth", "numjobs", "reads", "requests"].forEach((id) => stand(id, value(id)));
  ["order", "seed", "burst", "prices"].forEach((id) => { $(id).value = value(id); });
  $("burst").disabled = !hasWrites();
  const old = pinnedSettings();
  $("swap").hidden = $("unpin").hidden = !old;
  $("pinned").textContent = old ? `Pinned: ${driveTitle(old)}, ${work(old)}` : "";
  for (const link of $("examples").querySelectorAll("a")) {
    if (isChosen(EXAMPLES[link.dataset.example].settings)) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** True if these settings are chosen, and no others. */
function isChosen(settings) {
  const compact = (it) => JSON.stringify(Object.entries(it).filter(([key, now]) => now !== USUAL[key]).sort());
  return compact(settings) === compact(chosen);
}

/** Stores a setting; a default or empty one is removed. */
function choose(id, wanted) {
  if (wanted === "" && id !== "order" || wanted === USUAL[id]) delete chosen[id];
  else chosen[id] = wanted;
  if (id === "drive") [...SECTIONS, ...OF_DRIVE].forEach((key) => delete chosen[key]);
  settle();
}

/** Updates the address, the controls and the drawings after a change of settings. */
function settle() {
  history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
  showChosen();
  follow();
}

/** The settings without a pinned state, as the address has them. */
function withoutPinned() {
  const { vs: _, ...rest } = chosen;
  return new URLSearchParams(rest).toString();
}

function fill(id, options, first) {
  const all = [["", first, ""], ...options.map(({ name, summary }) => [name, name, summary])];
  $(id).innerHTML = all.map(([it, name, title]) => `<option value="${escaped(it)}" title="${escaped(title)}">${escaped(name)}</option>`).join("");
}

/** Drives in groups, each drive in the first group that has it. */
function fillDrives() {
  const seen = new Set();
  const groups = GROUPS.map(([title, set]) => [title, catalog.sets[set] ?? []]);
  groups.push([OTHERS, catalog.drives.map((it) => it.name)]);
  const summary = (name) => catalog.drives.find((it) => it.name === name)?.summary ?? "";
  const option = (name) => `<option value="${escaped(name)}" title="${escaped(`${name}: ${summary(name)}`)}">${escaped(humanName(name))}</option>`;
  $("drive").innerHTML = '<option value="" hidden>A drive file of your own</option>' + groups.map(([title, names]) => {
    const own = names.filter((it) => !seen.has(it));
    own.forEach((it) => seen.add(it));
    return `<optgroup label="${title}">${own.map(option).join("")}</optgroup>`;
  }).join("");
}

function listenToPins() {
  $("pin").addEventListener("click", () => { chosen.vs = withoutPinned(); settle(); });
  $("unpin").addEventListener("click", () => { delete chosen.vs; settle(); });
  $("swap").addEventListener("click", () => {
    const old = pinnedSettings();
    chosen = { ...old, vs: withoutPinned() };
    settle();
  });
}

function listen() {
  for (const id of Object.keys(SLIDERS)) {
    Object.assign($(id), { min: 0, max: SLIDERS[id].values.length - 1, step: 1 });
    $(id).addEventListener("input", () => choose(id, SLIDERS[id].values[$(id).value]));
  }
  for (const id of ["drive", "order", "set", "text", "prices", ...SECTIONS]) $(id).addEventListener("change", () => choose(id, $(id).value));
  $("burst").addEventListener("change", () => choose("burst", Number($("burst").value)));
  $("seed").addEventListener("change", () => choose("seed", Math.min(Math.max(0, Math.trunc(Number($("seed").value))), 2 ** 32 - 1)));
  $("reset").addEventListener("click", () => {
    [...SECTIONS, ...OF_DRIVE, "set", "text"].forEach((key) => delete chosen[key]);
    settle();
  });
  $("scale").addEventListener("change", () => { if (shown.trace) drawLadder(shown.trace); });
  window.addEventListener("hashchange", () => { chosen = readSettings(location.hash.slice(1)); showChosen(); follow(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  listenToPins();
  copies("copy-command", () => commandLine());
  copies("copy-toml", async () => (await ask({ verb: "check", drive: drive() })).toml);
  copies("copy-json", () => `${JSON.stringify(shown.result, null, 2)}\n`);
  copies("copy-address", () => location.href);
}

/** Returns the text to be copied, or none while there is none. */
async function textOf(text) {
  try {
    return await text();
  } catch {
    $("copied").textContent = "There is nothing to copy yet.";
  }
}

/** A button that copies, also where there is no clipboard for scripts. */
function copies(id, text) {
  $(id).addEventListener("click", async () => {
    const copy = await textOf(text);
    if (copy === undefined) return;
    try {
      await navigator.clipboard.writeText(copy);
    } catch {
      const area = Object.assign(document.createElement("textarea"), { value: copy });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    $("copied").textContent = "Copied.";
    setTimeout(() => { $("copied").textContent = ""; }, 2000);
  });
}

function drawExamples() {
  $("examples").innerHTML = EXAMPLES.map(({ question, settings }, place) =>
    `<li><a data-example="${place}" href="#${escaped(new URLSearchParams(settings).toString())}">${escaped(question)}</a></li>`).join("");
  $("foot").innerHTML = `phaselink ${escaped(catalog.version)} · <a href="${escaped(catalog.address)}">source and documentation</a> · ` +
    "figures are those of the program, to the last digit · nothing leaves this page";
}

async function begin() {
  try {
    catalog = await ask({ verb: "catalog" });
  } catch (error) {
    $("told").textContent = `The simulator cannot be loaded: ${error.message}`;
    return;
  }
  colourOf = stageColours(catalog);
  fillDrives();
  SECTIONS.forEach((id) => fill(id, catalog.presets.filter((it) => it.section === id), "as the drive says"));
  $("prices").innerHTML = catalog.prices.map((it) => `<option>${escaped(it)}</option>`).join("");
  drawExamples();
  listen();
  chosen = readSettings(location.hash.slice(1));
  showChosen();
  follow();
}

begin();
