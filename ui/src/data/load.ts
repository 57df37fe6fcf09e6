// Takes the data out of the page: base64, raw deflate, columns.

import { type Parts, Recording } from "./recording";

const PARTS = ["run", "names", "stacks", "sites", "details", "cells", "source"] as const;

/** Reads the recording of this page. */
export async function load(): Promise<Recording> {
  const inflated = await Promise.all(
    PARTS.map(async (name) => {
      const element = document.getElementById(`data-${name}`);
      if (!element) throw new Error("this page has no recording in it");
      const bytes = await inflate(fromBase64(element.textContent ?? ""));
      // The text is as large as the rest together.
      element.remove();
      return [name, bytes] as const;
    }),
  );
  return new Recording(Object.fromEntries(inflated) as Parts);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
