// Takes the data out of the page: base64, raw deflate, columns or JSON. Its parts say whether it
// is the page of a recording, of a comparison or of an allocator report.

import { AllocatorReport } from "./allocators";
import { Comparison, type ComparisonParts } from "./comparison";
import { type Parts, Recording } from "./recording";

const RECORDING = ["run", "names", "stacks", "sites", "details", "cells", "source"] as const;
const COMPARISON = ["comparison", "names", "stacks", "entries"] as const;
const ALLOCATORS = ["allocators"] as const;

/** Reads what this page has. */
export async function load(): Promise<Recording | Comparison | AllocatorReport> {
  if (document.getElementById("data-comparison")) return new Comparison((await parts(COMPARISON)) as ComparisonParts);
  if (document.getElementById("data-allocators")) return new AllocatorReport(new TextDecoder().decode((await parts(ALLOCATORS)).allocators));
  return new Recording((await parts(RECORDING)) as Parts);
}

async function parts(names: readonly string[]): Promise<Record<string, Uint8Array>> {
  const inflated = await Promise.all(
    names.map(async (name) => {
      const element = document.getElementById(`data-${name}`);
      if (!element) throw new Error("this page has no recording in it");
      const bytes = await inflate(fromBase64(element.textContent ?? ""));
      // The text is as large as the rest together.
      element.remove();
      return [name, bytes] as const;
    }),
  );
  return Object.fromEntries(inflated);
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
