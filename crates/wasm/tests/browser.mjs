// Tests of the page in Chromium: browser.mjs PAGE MODULE [DIRECTORY FOR SCREENSHOTS]; ONLY=WORD runs those with it in their names.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [page, module, pictures] = process.argv.slice(2);
const { AXE, ONLY: only } = process.env;
const CHROMIUM = process.env.CHROMIUM ?? "chromium";
if (spawnSync(CHROMIUM, ["--version"]).status !== 0) {
  console.log("Chromium is not installed: the page is NOT tested in a browser");
  process.exit(process.env.CI === "true" ? 1 : 0);
}

const source = readFileSync(new URL("../page/simulator.js", import.meta.url), "utf8");
const { Simulator } = new Function(`${source}; return { Simulator };`)();
const simulator = await Simulator.load(await WebAssembly.compile(readFileSync(module)));

// ---- a browser of our own, spoken to over a pipe ----

const profile = mkdtempSync(join(tmpdir(), "explorer-"));
const flags = ["--headless", "--hide-scrollbars", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"];
const browser = spawn(CHROMIUM, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const deadline = setTimeout(() => fail(new Error("the browser took longer than four minutes")), 240_000);
const waiting = new Map();
let last = 0, rest = "", session;

browser.stdio[4].setEncoding("utf8").on("data", (text) => {
  const messages = (rest + text).split("\0");
  rest = messages.pop();
  for (const message of messages.map((it) => JSON.parse(it))) {
    const { resolve, reject } = waiting.get(message.id) ?? {};
    waiting.delete(message.id);
    if (message.error) reject?.(new Error(message.error.message));
    else resolve?.(message.result);
    if (message.method === "Runtime.exceptionThrown") fail(new Error(message.params.exceptionDetails.exception?.description));
    if (message.method === "Network.requestWillBeSent") asked.push(message.params.request.url);
  }
});

const asked = [];
function send(method, params = {}) {
  browser.stdio[3].write(`${JSON.stringify({ id: ++last, method, params, sessionId: session })}\0`);
  return new Promise((resolve, reject) => waiting.set(last, { resolve, reject }));
}

async function evaluate(expression) {
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

/** Wait until the page has drawn all that is chosen. */
async function idle() {
  for (let turn = 0; turn < 600; turn++) {
    if (await evaluate("document.body?.dataset.state === 'idle' && !busy")) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the page is never idle");
}

async function open(hash, isWaited = true) {
  // An address that is there already would change nothing.
  await evaluate(`document.body.dataset.state = "busy"; history.replaceState(null, "", ${JSON.stringify(hash)}); dispatchEvent(new Event("hashchange")); 0`);
  if (isWaited) await idle();
}

const text = (id) => evaluate(`$('${id}').textContent`);
/** Waits until an expression is true in the page. */
async function until(expression) {
  for (let turn = 0; turn < 400; turn++) {
    if (await evaluate(expression)) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`never true: ${expression}`);
}

async function screen(width, height, { dark = false, mobile = false, media = "screen" } = {}) {
  await send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile });
  await send("Emulation.setEmulatedMedia", { media, features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
}

async function picture(name, { width, height, dark = false, mobile = false, media = "screen" }) {
  if (!pictures) return;
  await screen(width, height, { dark, mobile, media });
  await evaluate("document.activeElement?.blur(), scrollTo(0, 0)");
  const { data } = await send("Page.captureScreenshot", { captureBeyondViewport: true });
  writeFileSync(join(pictures, `${name}.png`), Buffer.from(data, "base64"));
}

/** Close the browser. Its helpers may write for a moment longer than it lives. */
async function stop() {
  clearTimeout(deadline);
  const gone = new Promise((resolve) => browser.once("exit", resolve));
  session = undefined;
  send("Browser.close").catch(() => {});
  const killed = setTimeout(() => browser.kill("SIGKILL"), 5000);
  await gone;
  clearTimeout(killed);
  for (let turn = 0; turn < 50; turn++) {
    try {
      return rmSync(profile, { recursive: true, force: true });
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  console.log(`${profile} is left`);
}

async function fail(error) {
  console.log(error);
  await stop();
  process.exit(1);
}

// ---- the tests ----

const load = async () => {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  ({ sessionId: session } = await send("Target.attachToTarget", { targetId, flatten: true }));
  await send("Runtime.enable");
  await send("Network.enable");
  await send("Page.enable");
  await screen(1280, 900);
  await send("Page.navigate", { url: pathToFileURL(resolve(page)).href });
  await new Promise((resolve) => setTimeout(resolve, 500));
  await idle();
};

const QUESTION = "runQuestion()";
const TESTS = {
  async it_simulates_in_a_worker_and_its_figures_are_those_of_the_module() {
    assert.equal(await evaluate("String(desk.stop).includes('terminate')"), true);
    for (const hash of ["#", "#drive=dc-express&iodepth=8&bs=512", "#drive=nvme&lanes=8&generation=4&media=dram&reads=70&iodepth=32",
      "#drive=moneta-block&reads=0&numjobs=4", "#drive=cxl&set=media.read_ns%3D300&requests=1000", "#drive=tlc-gen5&reads=0&burst=1"]) {
      await open(hash);
      assert.equal(await evaluate("$('problem').hidden"), true, `${hash}: ${await text("problem")}`);
      assert.equal(await evaluate("JSON.stringify(shown.result)"), JSON.stringify(simulator.ask(await evaluate(QUESTION))), hash);
      for (const id of ["told", "tiles", "stages", "limits", "curve", "ladder"]) {
        assert.ok((await text(id)).length > 40, `${hash}: nothing in ${id}`);
      }
      assert.ok(!/NaN|undefined|Infinity/.test(await evaluate("$('answer').innerHTML + $('details').innerHTML")), hash);
    }
  },

  async it_opens_on_a_drive_that_is_bought_now_with_version_and_link() {
    await open("#");
    assert.equal(await evaluate("catalog.sets['2026'].includes($('drive').value)"), true);
    assert.match(await text("foot"), /phaselink \d+\.\d+\.\d+/);
    assert.equal(await evaluate("$('foot').querySelector('a').href.startsWith('https://')"), true);
  },

  async drives_have_human_names_in_groups() {
    assert.deepEqual(await evaluate("catalog.drives.filter((it) => !NAMES[it.name]).map((it) => it.name)"), []);
    assert.deepEqual(await evaluate("Object.keys(NAMES).filter((name) => !catalog.drives.some((it) => it.name === name))"), []);
    assert.equal(await evaluate("$('drive').querySelectorAll('optgroup option').length"), await evaluate("catalog.drives.length"));
    assert.equal(await evaluate("$('drive').querySelector('optgroup').label"), "Bought now");
  },

  async the_sentence_follows_utilisation() {
    await open("#drive=optane-p5800x");
    assert.match(await text("told"), /no part of optane-p5800x is saturated.*latency limits the rate\. Firmware takes 35 % of the latency of random reads/);
    await open("#drive=tlc-gen5&iodepth=32");
    assert.match(await text("told"), /no part of tlc-gen5 is saturated/);
    await open("#drive=nvme&iodepth=32");
    assert.match(await text("told"), /nvme is limited by its cores, (9\d|100) % busy/);
    assert.match(await text("limits"), /cores(9\d|100) %/);
  },

  async bounds_are_called_bounds_beside_simulated_utilisation() {
    await open("#drive=nvme&iodepth=8");
    assert.match(await evaluate("$('limits').querySelector('thead').textContent"), /utilisation.*upper bound/);
    assert.match(await text("curve"), /upper bound: cores/);
    assert.equal(await evaluate("[...$('limits').querySelectorAll('tbody tr')].every((row, at, rows) => !at || parseFloat(row.cells[1].textContent) <= parseFloat(rows[at - 1].cells[1].textContent) || row.cells[1].textContent === '–')"), true);
  },

  async a_state_is_pinned_and_the_next_one_is_shown_against_it() {
    await open("#drive=tlc-gen5");
    await evaluate("$('pin').click()");
    await idle();
    await evaluate("$('drive').value = 'optane-p5800x', $('drive').dispatchEvent(new Event('change')), 0");
    await idle();
    const pinned = simulator.ask(await evaluate("runQuestion(pinnedSettings())"));
    assert.equal(await evaluate("JSON.stringify(shown.was)"), JSON.stringify(pinned));
    assert.match(await text("told"), /Beside the pinned Flash SSD of 2022.*as fast a request.*in media/);
    assert.match(await text("tiles"), /−\d+ % for [\d.]+ µs pinned/);
    assert.match(await text("stages"), /Pinned: Flash SSD.*difference/);
    assert.equal(await evaluate("$('curve').querySelectorAll('polyline[stroke-dasharray]').length"), 3);
    // The address brings both states back, and they can be swapped.
    const address = await evaluate("location.hash");
    assert.match(address, /vs=drive%3Dtlc-gen5|vs=(&|$)/);
    await open("#");
    await open(address);
    assert.equal(await evaluate("shown.was.phaselink.drive"), "tlc-gen5");
    await evaluate("$('swap').click()");
    await idle();
    assert.deepEqual(await evaluate("[shown.result.phaselink.drive, shown.was.phaselink.drive]"), ["tlc-gen5", "optane-p5800x"]);
    await evaluate("$('unpin').click()");
    await idle();
    assert.equal(await evaluate("$('unpin').hidden && !shown.was && !$('tiles').querySelector('.beside')"), true);
  },

  async each_example_is_a_question_with_an_answer() {
    const count = await evaluate("EXAMPLES.length");
    assert.ok(count >= 5);
    for (let place = 0; place < count; place++) {
      await evaluate(`location.hash = $('examples').querySelectorAll('a')[${place}].hash; 0`);
      await until("document.body.dataset.state === 'busy' || document.querySelector('#examples [aria-current]')");
      await idle();
      const [question, told] = [await evaluate(`EXAMPLES[${place}].question`), await evaluate("$('told').querySelector('p').textContent")];
      assert.ok(told.startsWith(`${question} `) && told.length > question.length + 10 && !/NaN|undefined/.test(told), told);
      assert.equal(await evaluate(`$('examples').querySelector('[aria-current]').dataset.example`), `${place}`);
    }
  },

  async lifetime_and_break_even_times_are_answers_of_the_module_in_words() {
    await open("#drive=tlc-gen5&prices=tlc-cpu");
    for (const [id, question, words] of [["endurance", "enduranceQuestion()", /tlc-gen5 endures/], ["breakeven", "breakEvenQuestion()", /belongs in memory/]]) {
      assert.equal(await evaluate(`JSON.stringify(shown.${id})`), JSON.stringify(simulator.ask(await evaluate(question)).document));
      assert.match(await text(id), words);
    }
    assert.equal(await evaluate("$('prices').value"), "tlc-cpu");
    await open("#drive=optane-p5800x");
    assert.match(await text("endurance"), /last for ever/);
    assert.equal(await evaluate("$('problem').hidden"), true);
  },

  async throughput_is_drawn_against_latency() {
    await open("#drive=optane-p5800x");
    assert.equal(await evaluate("[...$('curve').querySelectorAll('svg')].some((it) => it.getAttribute('aria-label').startsWith('Mean latency over throughput'))"), true);
  },

  async shares_of_host_link_device_and_memory_sum_to_the_whole() {
    const shares = await evaluate("partShares(shown.result).map((it) => it.share)");
    assert.ok(shares.length === 4 && Math.abs(shares.reduce((sum, it) => sum + it) - 1) < 1e-9, `${shares}`);
    assert.deepEqual(await evaluate("[...$('stages').querySelector('.parts').children].map((it) => it.textContent.split(' ')[0])"), ["host", "link", "device", "memory"]);
  },

  async stages_side_by_side_never_share_a_colour() {
    for (const hash of ["#drive=nvme", "#drive=moneta-block", "#drive=pss-block", "#drive=cxl", "#drive=optane-p5800x&stack=linux-6", "#drive=disk-raid"]) {
      await open(hash);
      const fills = await evaluate("[...$('stages').querySelectorAll('figure:first-of-type svg rect[rx=\"2\"]')].map((it) => it.getAttribute('fill'))");
      assert.ok(fills.length > 3 && fills.every((fill, at) => fill !== fills[at + 1]), `${hash}: ${fills}`);
    }
  },

  async the_ladder_shows_one_request_with_repetitions_folded_and_can_be_drawn_to_scale() {
    for (const hash of ["#drive=nvme&iodepth=32", "#drive=dc-express&iodepth=32", "#drive=disk-raid&bs=65536", "#drive=tlc-gen5&iodepth=128"]) {
      await open(hash);
      const [steps, rows] = await evaluate("[shown.trace.steps.length, folded(shown.trace.steps).length]");
      assert.ok(rows <= steps && rows <= 60, `${hash}: ${rows} of ${steps} steps`);
      assert.equal(await evaluate("$('ladder').querySelectorAll('[data-step]').length"), rows);
      assert.equal(await evaluate("folded(shown.trace.steps).reduce((sum, it) => sum + it.count, 0)"), steps);
    }
    await open("#drive=dc-express");
    const heights = () => evaluate("[...$('ladder').querySelectorAll('g[data-step] rect')].map((it) => Number(it.getAttribute('height')))");
    assert.equal(new Set(await heights()).size, 1);
    await evaluate("$('scale').click()");
    assert.ok(new Set(await heights()).size > 2, "every step is as high as it is long");
    await evaluate("$('scale').click()");
  },

  async a_long_question_has_a_first_figure_at_once_and_gives_way_to_the_next() {
    await open("#drive=optane-p5800x&requests=100000&iodepth=64&bs=65536&seed=5", false);
    await until("shown.first && $('told').textContent.includes('First look')");
    assert.ok(!(await evaluate("shown.result")), "the whole answer comes later");
    const begun = Date.now();
    await open("#drive=optane-p5800x");
    assert.ok(Date.now() - begun < 8000, "the long question is stopped");
    assert.equal(await evaluate("shown.result.phaselink.figures.ios"), 2000);
    await open("#drive=optane-p5800x&requests=5000&iodepth=8");
    assert.ok(!(await text("told")).includes("First look") && await evaluate("shown.first_ms < shown.point_ms"));
    assert.equal(await evaluate("shown.result.phaselink.figures.ios"), 5000);
  },

  async writes_have_a_control_for_bursts() {
    await open("#drive=tlc-gen4&iodepth=8");
    assert.equal(await evaluate("$('burst').disabled"), true);
    await open("#drive=tlc-gen4&iodepth=8&reads=0");
    assert.match(await text("told"), /steady state/);
    const steady = await evaluate("figuresOf(shown.result).iops");
    await evaluate("$('burst').value = '1', $('burst').dispatchEvent(new Event('change')), 0");
    await idle();
    assert.match(await evaluate("location.hash"), /burst=1/);
    assert.match(await text("command"), / --burst/);
    assert.match(await text("told"), /Measured in a burst/);
    assert.ok(await evaluate("figuresOf(shown.result).iops") > 2 * steady);
  },

  async a_drive_file_of_ones_own_is_labelled_as_such() {
    await open(`#text=${encodeURIComponent("preset = 'nvme'\nname = 'mine'")}&drive=optane-p5800x`);
    assert.equal(await evaluate("$('drive').selectedOptions[0].textContent"), "A drive file of your own");
    assert.ok(!(await evaluate("$('summary').textContent")).includes("XPoint"));
    assert.match(await text("told"), /On mine,/);
    assert.match(await text("command"), /drive\.toml/);
  },

  async the_address_follows_the_controls_and_a_key_moves_a_slider() {
    await open("#");
    await evaluate("$('iodepth').focus()");
    for (const type of ["keyDown", "keyUp"]) await send("Input.dispatchKeyEvent", { type, key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 });
    await idle();
    assert.equal(await evaluate("location.hash"), "#iodepth=2");
    assert.match(await text("command"), /--iodepth 2 /);
    assert.equal(await evaluate("$('iodepth').getAttribute('aria-valuetext')"), "2");
    await evaluate("navigator.clipboard.writeText = async (text) => { window.taken = text; }; $('copy-toml').click()");
    await until("Boolean(window.taken)");
    assert.equal(await evaluate("window.taken"), simulator.ask({ verb: "check", drive: await evaluate("drive()") }).toml);
  },

  async problems_are_shown_in_words_and_disappear_when_they_are_solved() {
    await open("#set=link.lanes%3Dseven%0Amedia.reed_ns%3D3");
    assert.match(await text("problem"), /lanes[^]*reed_ns/);
    await picture("problem", { width: 1200, height: 900 });
    await open("#");
    assert.equal(await evaluate("$('problem').hidden && !document.body.classList.contains('stale')"), true);
  },

  async every_control_and_drawing_has_a_name_and_nothing_is_asked_of_anybody() {
    assert.deepEqual(await evaluate("[...document.querySelectorAll('input,select,textarea')].filter((it) => !it.labels?.length).map((it) => it.id)"), []);
    assert.equal(await evaluate("document.querySelectorAll('svg:not([role=img][aria-label])').length"), 0);
    assert.deepEqual(asked.filter((url) => !/^(file|blob|data):/.test(url)), []);
  },

  async the_answer_and_the_curve_are_on_the_first_screen() {
    await screen(1280, 900);
    await open("#drive=optane-p5800x&iodepth=8");
    const bottom = (expression) => evaluate(`scrollTo(0, 0), ${expression}.getBoundingClientRect().bottom`);
    assert.ok(await bottom("$('curve').querySelector('svg')") <= 900, "the curve that the depth moves is on the screen");
    assert.ok(await bottom("$('iodepth')") <= 900, "with the slider");
    await screen(390, 844, { mobile: true });
    assert.ok(await evaluate("document.documentElement.scrollWidth <= 390"), "no wider than a phone");
    assert.ok(await bottom("$('tiles')") <= 844, "a phone shows the answer first");
    await evaluate("$('iodepth').scrollIntoView({ block: 'center' })");
    const short = await evaluate("(({ top, height }) => [top, height])($('short').getBoundingClientRect())");
    assert.ok(short[0] >= -1 && short[0] < 100 && short[1] > 10, `the figures stay in sight above the slider: ${short}`);
  },

  async the_page_looks_as_pictures_show_it() {
    await picture("phone", { width: 390, height: 844, mobile: true });
    await picture("dark", { width: 1280, height: 900, dark: true });
    await open("#drive=optane-p5800x&vs=drive%3Dtlc-gen5");
    await picture("light", { width: 1280, height: 900 });
    await picture("print", { width: 800, height: 1100, dark: true, media: "print" });
    await screen(1280, 900);
  },

  async no_serious_finding_of_axe() {
    if (!AXE) {
      console.log("axe-core is not installed (AXE=PATH of axe.min.js): accessibility is NOT checked by it");
      return;
    }
    for (const [hash, dark] of [["#", false], ["#drive=optane-p5800x&vs=drive%3Dtlc-gen5", true]]) {
      await screen(1280, 900, { dark });
      await open(hash);
      await evaluate(`${readFileSync(AXE, "utf8")}; 0`);
      const found = await evaluate("axe.run().then(({ violations }) => violations.map((it) => `${it.impact}: ${it.id}: ${it.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(' | ')}`))");
      assert.deepEqual(found.filter((it) => /^(serious|critical)/.test(it)), []);
    }
    await screen(1280, 900);
  },

  async without_workers_the_page_itself_simulates() {
    await evaluate("known.clear(); desk = undefined; window.Worker = class { constructor() { throw new Error('no workers'); } }; 0");
    await open("#drive=pss");
    assert.equal(await evaluate("desk.stop === undefined"), true);
    assert.equal(await evaluate("shown.result.phaselink.drive"), "pss");
    await send("Page.reload");
    await new Promise((resolve) => setTimeout(resolve, 500));
    await idle();
  },
};

async function times() {
  await open("#drive=nvme&iodepth=8");
  const times = await evaluate(`(async () => {
    const times = [];
    for (let turn = 0; turn < 41; turn++) {
      const begun = performance.now();
      await ask({ verb: "run", drive: { name: "nvme" , set: [] }, job: job(8), seed: 1000 + turn });
      times.push(performance.now() - begun);
    }
    return times.sort((a, b) => a - b);
  })()`);
  const shown = await evaluate("({ point: shown.point_ms, curve: shown.curve_ms })");
  console.log(`the page works in Chromium, ${Object.keys(TESTS).length} tests; 2,000 requests take ${times[20].toFixed(1)} ms (median; least ${times[0].toFixed(1)} ms), ` +
    `a change is drawn after ${shown.point.toFixed(0)} ms, with its curve after ${shown.curve.toFixed(0)} ms`);
}

async function test() {
  await load();
  const failed = [];
  for (const [name, run] of Object.entries(TESTS)) {
    if (only && !name.includes(only)) continue;
    try {
      await run();
    } catch (error) {
      console.log(`${name}: ${error.stack}`);
      failed.push(name);
    }
  }
  if (failed.length) throw new Error(`failed: ${failed.join(", ")}`);
  await times();
}

await test().then(stop, fail);
