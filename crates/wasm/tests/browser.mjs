// Tests of the page in Chromium: browser.mjs PAGE MODULE [DIRECTORY FOR SCREENSHOTS]
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [page, module, pictures] = process.argv.slice(2);
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
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
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

async function open(hash) {
  // An address that is there already would change nothing.
  await evaluate(`document.body.dataset.state = "busy"; history.replaceState(null, "", ${JSON.stringify(hash)}); dispatchEvent(new Event("hashchange")); 0`);
  await idle();
}

async function picture(name, { width, height, dark = false, mobile = false, media = "screen" }) {
  if (!pictures) return;
  await send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile });
  await send("Emulation.setEmulatedMedia", { media, features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
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

async function test() {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  ({ sessionId: session } = await send("Target.attachToTarget", { targetId, flatten: true }));
  await send("Runtime.enable");
  await send("Network.enable");
  await send("Page.enable");
  await send("Page.navigate", { url: pathToFileURL(resolve(page)).href });
  await new Promise((resolve) => setTimeout(resolve, 500));
  await idle();

  // It simulates in a worker, and the figures are the module's.
  assert.equal(await evaluate("String(desk.stop).includes('terminate')"), true);
  for (const hash of ["#", "#drive=dc-express&iodepth=8&bs=512", "#drive=nvme&lanes=8&generation=4&media=dram&reads=70&iodepth=32",
    "#drive=moneta-block&reads=0&numjobs=4", "#drive=cxl&set=media.read_ns%3D300&requests=1000"]) {
    await open(hash);
    assert.equal(await evaluate("$('problem').hidden"), true, `${hash}: ${await evaluate("$('problem').textContent")}`);
    const question = await evaluate("({ verb: 'run', drive: drive(), job: job(), seed: value('seed') })");
    assert.equal(await evaluate("JSON.stringify(shown.result)"), JSON.stringify(simulator.ask(question)), hash);
    for (const id of ["tiles", "stages", "limits", "curve", "ladder"]) {
      assert.ok((await evaluate(`$('${id}').textContent`)).length > 40, `${hash}: nothing in ${id}`);
    }
    assert.ok(!/NaN|undefined|Infinity/.test(await evaluate("$('results').innerHTML")), hash);
  }

  // The address follows the controls, and a key on the keyboard moves a slider.
  await open("#");
  await evaluate("$('iodepth').focus()");
  for (const type of ["keyDown", "keyUp"]) await send("Input.dispatchKeyEvent", { type, key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 });
  await idle();
  assert.equal(await evaluate("location.hash"), "#iodepth=2");
  assert.match(await evaluate("$('command').textContent"), /--iodepth 2 /);
  assert.equal(await evaluate("$('iodepth').getAttribute('aria-valuetext')"), "2");

  // Copied texts match the settings.
  await evaluate("navigator.clipboard.writeText = async (text) => { window.taken = text; }; $('copy-toml').click()");
  for (let turn = 0; turn < 100 && !(await evaluate("window.taken")); turn++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(await evaluate("window.taken"), simulator.ask({ verb: "check", drive: await evaluate("drive()") }).toml);

  // Problems are shown in words, and disappear when they are solved.
  await open("#set=link.lanes%3Dseven%0Amedia.reed_ns%3D3");
  assert.match(await evaluate("$('problem').textContent"), /lanes[^]*reed_ns/);
  await picture("problem", { width: 1200, height: 900 });
  await open("#");
  assert.equal(await evaluate("$('problem').hidden"), true);

  // Every control has a name, every drawing too, and nothing was asked of anybody.
  assert.deepEqual(await evaluate("[...document.querySelectorAll('input,select,textarea')].filter((it) => !it.labels?.length).map((it) => it.id)"), []);
  assert.equal(await evaluate("document.querySelectorAll('svg:not([role=img][aria-label])').length"), 0);
  assert.deepEqual(asked.filter((url) => !/^(file|blob|data):/.test(url)), []);

  // A phone shows it without a page that scrolls sideways.
  await send("Emulation.setDeviceMetricsOverride", { width: 390, height: 844, deviceScaleFactor: 1, mobile: true });
  assert.ok(await evaluate("document.documentElement.scrollWidth <= 390"), "wider than a phone");
  await picture("phone", { width: 390, height: 844, mobile: true });
  await picture("dark", { width: 1200, height: 900, dark: true });
  await open("#drive=nvme&iodepth=8&reads=70");
  await picture("light", { width: 1200, height: 900 });
  await picture("print", { width: 800, height: 1100, dark: true, media: "print" });

  // Without workers the page itself simulates.
  await evaluate("desk = undefined; window.Worker = class { constructor() { throw new Error('no workers'); } }; 0");
  await open("#drive=pss");
  assert.equal(await evaluate("String(desk.stop).includes('terminate')"), false);
  assert.equal(await evaluate("shown.result.phaselink.drive"), "pss");
  await send("Page.reload");
  await new Promise((resolve) => setTimeout(resolve, 500));
  await idle();

  const times = await evaluate(`(async () => {
    const times = [];
    for (let turn = 0; turn < 41; turn++) {
      const begun = performance.now();
      await ask({ verb: "run", drive: { name: "nvme" , set: [] }, job: job(8), seed: turn });
      times.push(performance.now() - begun);
    }
    return times.sort((a, b) => a - b);
  })()`);
  const shown = await evaluate("({ point: shown.point_ms, curve: shown.curve_ms })");
  console.log(`the page works in Chromium; 2,000 requests take ${times[20].toFixed(1)} ms (median; least ${times[0].toFixed(1)} ms), ` +
    `a change is drawn after ${shown.point.toFixed(0)} ms, with its curve after ${shown.curve.toFixed(0)} ms`);
}

await test().then(stop, fail);
