// The simulator as an object: questions and answers as values. Used by the page, its worker and the tests in node.

class Simulator {
  static async load(module) {
    return new Simulator((await WebAssembly.instantiate(module, {})).exports);
  }

  constructor(exports) {
    this.exports = exports;
  }

  /** The text of the answer to a question. */
  askText(question) {
    const bytes = new TextEncoder().encode(JSON.stringify(question));
    const at = this.exports.room(bytes.length);
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
    this.exports.ask();
    return this.told();
  }

  /** Returns the answer to a question, or throws its problems. */
  ask(question) {
    const { answer, text } = JSON.parse(this.askText(question));
    if (answer === undefined) throw new Error(text);
    return answer;
  }

  /** The last answer; after a trap, the message of the panic. */
  told() {
    const { memory, answer, length } = this.exports;
    return new TextDecoder().decode(new Uint8Array(memory.buffer, answer(), length()));
  }
}

/** Answers questions in their order, and loads the module anew after a panic. */
class Desk {
  constructor(module) {
    this.module = module;
  }

  async answer(question) {
    this.simulator ??= Simulator.load(this.module);
    const simulator = await this.simulator;
    try {
      return { answer: simulator.ask(question) };
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) return { problem: error.message };
      this.simulator = undefined;
      return { problem: `The simulator has a fault, please report it: ${simulator.told() || error.message}` };
    }
  }
}
