// The one stream of this page: read with fetch, since an EventSource cannot send a token. When it is
// cut the page says so and asks again; the first message of a new stream is a whole picture, so that
// nothing of the time between is missing.

import { refusal, request } from "./api.js";

const FRAMES = "/apis/quadrant.dev/v1alpha1/frames";
const SILENCE = 12000; // ms; the server says something every 5 s
const SHORTEST = 500;
const LONGEST = 5000;

// Calls take(event, text) for each server-sent event until the stream ends.
async function readEvents(body, heard, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = []; // joined only when the message is whole: a large one comes in thousands of pieces
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    parts.push(value);
    if (!value.includes("\n")) continue;
    const messages = parts.join("").split("\n\n");
    parts = [messages.pop()];
    for (const message of messages) {
      const event = /^event: (.*)$/m.exec(message)?.[1];
      const at = message.indexOf("data: ");
      if (event && at >= 0) take(event, message.slice(at + 6));
    }
  }
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Stream {
  // `state(word, sentence)` is told of each change; `askToken(sentence)` resolves with one is kept.
  constructor({ store, changed, state, askToken }) {
    Object.assign(this, { store, changed, state, askToken });
  }

  async run() {
    let pause = SHORTEST;
    for (;;) {
      const number = this.store.number;
      const sentence = await this.#once();
      if (this.store.number !== number) pause = SHORTEST; // it was good for a while
      if (sentence === null) continue;
      this.state("reconnecting", sentence);
      await wait(pause);
      pause = Math.min(LONGEST, pause * 2);
    }
  }

  // Reads one stream to its end; why it ended, or null where a token was given meanwhile.
  async #once() {
    const cut = new AbortController();
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => cut.abort(), SILENCE);
    };
    try {
      heard();
      const response = await request(FRAMES, { signal: cut.signal });
      if (response.status === 401 || response.status === 403) {
        clearTimeout(timer);
        await this.askToken(await refusal(response));
        return null;
      }
      if (!response.ok) return await refusal(response);
      await readEvents(response.body, heard, (event, text) => this.#take(event, JSON.parse(text)));
      return "the server ended the stream";
    } catch (error) {
      return cut.signal.aborted ? "the server has been silent" : String(error.message ?? error);
    } finally {
      clearTimeout(timer);
    }
  }

  #take(event, frame) {
    if (event === "snapshot") this.store.snapshot(frame);
    else if (event === "delta") this.store.delta(frame);
    else this.store.at = frame.at; // nothing changed, but ages go on
    this.state("live", "");
    this.changed();
  }
}
