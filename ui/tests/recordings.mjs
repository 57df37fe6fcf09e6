// Records the programs of program.c and writes their pages.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
/** Cargo's folder. */
export const target = process.env.CARGO_TARGET_DIR ?? here("../../target");

/** The command that is tested. */
export const allotrope = process.env.ALLOTROPE ?? join(target, "release/allotrope");
const source = here("program.c");

/** Why the tests cannot run, if they cannot. */
export function missing() {
  if (!existsSync(allotrope)) return `${allotrope} is not built`;
  for (const tool of ["gcc", "objcopy"]) {
    try {
      execFileSync(tool, ["--version"], { stdio: "ignore" });
    } catch {
      return `${tool} is not installed`;
    }
  }
  return null;
}

export class Recordings {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "allotrope-page-"));
    this.program = this.path("program");
    this.run("gcc", ["-g", "-O1", "-pthread", source, "-o", this.program]);
    this.pages = new Map();
  }

  path(name) {
    return join(this.folder, name);
  }

  run(command, words, options = {}) {
    return execFileSync(command, words, { stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 28, ...options });
  }

  /** Records a case of the program; returns the recording's path. */
  record(name, words = [name], options = [], program = this.program) {
    const path = this.path(`${name}.allotrope`);
    if (!existsSync(path)) this.run(allotrope, ["record", "-q", "-o", path, ...options, "--", program, ...words]);
    return path;
  }

  /** A recording of so many pairs of calls, of which many are lost: the collector is stopped
   * while the program makes them, and the program does not wait for it. */
  async lossy(pairs) {
    const path = this.path("lossy.allotrope");
    const words = ["record", "-q", "-o", path, "--on-full", "drop", "--", this.program, "flood", String(pairs)];
    const child = spawn(allotrope, words, { stdio: ["pipe", "pipe", "inherit"] });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    const byte = () => new Promise((resolve) => child.stdout.once("data", resolve));
    await byte();
    // Two looks of the collector at the process come first.
    await new Promise((resolve) => setTimeout(resolve, 500));
    const collector = collectorOf(child.pid);
    process.kill(collector, "SIGSTOP");
    const done = byte();
    child.stdin.write(".");
    await done;
    process.kill(collector, "SIGCONT");
    await new Promise((resolve) => setTimeout(resolve, 500));
    child.stdin.end();
    await ended;
    return path;
  }

  /** The first part of a recording's file. */
  cut(recording, part) {
    const path = this.path("cut.allotrope");
    const whole = readFileSync(recording);
    writeFileSync(path, whole.subarray(0, Math.floor(whole.length * part)));
    return path;
  }

  /** The page of a recording. */
  page(recording, ...options) {
    const page = `${[recording, ...options].join("")}.html`;
    if (!existsSync(page)) this.run(allotrope, ["report", recording, "--html", page, ...options], { stdio: ["ignore", "pipe", "pipe"] });
    return page;
  }

  /** The page of the comparison of two recordings. */
  comparison(before, after) {
    const page = `${after}-${before.slice(before.lastIndexOf("/") + 1)}.html`;
    if (!existsSync(page)) this.run(allotrope, ["diff", before, after, "--html", page], { stdio: ["ignore", "pipe", "pipe"] });
    return page;
  }

  /** The same as JSON. */
  diff(before, after, ...options) {
    return JSON.parse(this.run(allotrope, ["diff", before, after, "--format", "json", ...options]).toString());
  }

  /** The allocators of examples/allocator-getenv: `old` asks the environment in each `free`, `new`
   * does not. With `functions`, old's have other names. Writes the page of glibc, both, and one
   * that is not there; returns it and the JSON of the same measurement, or null if this machine
   * cannot step. */
  allocators(name = "words", functions = {}) {
    const page = this.path(`${name}.html`);
    if (!this.pages.has(page)) {
      const example = here("../../examples/allocator-getenv");
      const [code, patched] = [this.path("allocator.c"), this.path(`${name}-new`)];
      copyFileSync(join(example, "allocator.c"), code);
      this.run("gcc", ["-O2", "-g", join(example, "words.c"), "-o", this.path("words")]);
      const flags = ["-O2", "-g", "-fPIC", "-ftls-model=initial-exec", "-fno-builtin-malloc"];
      let source = code;
      if (Object.keys(functions).length > 0) {
        // Debug information would still have the old names.
        source = this.path(`${name}.o`);
        const renamed = Object.entries(functions).flatMap(([from, to]) => ["--redefine-sym", `${from}=${to}`]);
        this.run("gcc", ["-O1", "-fno-inline", ...flags.slice(2), "-c", code, "-o", source]);
        this.run("objcopy", [...renamed, source]);
      }
      this.run("gcc", [...flags, "-shared", source, "-o", this.path(`${name}-old.so`)]);
      mkdirSync(patched, { recursive: true });
      copyFileSync(code, join(patched, "allocator.c"));
      this.run("git", ["apply", join(example, "ask-once.patch")], { cwd: patched });
      this.run("gcc", [...flags, "-shared", join(patched, "allocator.c"), "-o", this.path(`${name}-new.so`)]);
      const recording = this.record("words", [], [], this.path("words"));
      const [before, after] = [this.path(`${name}-old.so`), this.path(`${name}-new.so`)];
      const words = ["allocators", recording, "-q", "--runs", "2", "--sample", "300", "--alloc", `glibc,old=${before},new=${after},missing=/nonexistent.so`, "--earlier", `new=${before}`];
      // Status 2, because one of them is not there.
      const result = spawnSync(allotrope, [...words, "--format", "json", "--html", page], { maxBuffer: 1 << 28 });
      if (result.stderr.includes("cannot be stepped")) return null;
      this.pages.set(page, JSON.parse(result.stdout.toString()));
    }
    return { page, json: this.pages.get(page) };
  }

  /** A copy of the page of an allocator report whose figures are changed. */
  changedAllocators(page, json) {
    const copy = page.replace(".html", "-changed.html");
    const data = deflateRawSync(JSON.stringify(json)).toString("base64");
    const text = readFileSync(page, "utf8");
    writeFileSync(copy, text.replace(/(id="data-allocators">)[^<]*/, (_, start) => start + data));
    return copy;
  }

  /** A program of this C code. */
  compile(name, code) {
    const [source, program] = [this.path(`${name}.c`), this.path(name)];
    writeFileSync(source, code);
    this.run("gcc", ["-g", "-O1", source, "-o", program]);
    return program;
  }

  /** Serves a recording with `allotrope view`; returns the URL, and a function that ends it and
   * gives the exit status. */
  async view(recording, ...options) {
    const child = spawn(allotrope, ["view", recording, "--no-open", ...options], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    const url = await new Promise((resolve) => child.stdout.once("data", (data) => resolve(data.toString().trim())));
    return {
      url,
      end: () => {
        child.kill("SIGTERM");
        return ended;
      },
    };
  }

  /** The JSON report of a recording. */
  report(recording, ...options) {
    return JSON.parse(this.run(allotrope, ["report", recording, "--format", "json", ...options]).toString());
  }

  /** The program with functions of other names. */
  renamed(names) {
    const [object, program] = [this.path("names.o"), this.path("names")];
    this.run("gcc", ["-O1", "-pthread", "-c", source, "-o", object]);
    const words = Object.entries(names).flatMap(([from, to]) => ["--redefine-sym", `${from}=${to}`]);
    this.run("objcopy", [...words, object]);
    this.run("gcc", ["-pthread", object, "-o", program]);
    return program;
  }

  /** A sampled profile of the program; null if this machine cannot watch. */
  async sampled() {
    const path = this.path("sampled.profile");
    // `standby` becomes the program, so this is its process id.
    const child = spawn(allotrope, ["standby", "--no-holder", "--period", "16KiB", "--", this.program, "live"], { stdio: ["pipe", "pipe", "ignore"] });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    try {
      await new Promise((resolve) => child.stdout.once("data", resolve));
      this.run(allotrope, ["watch", String(child.pid), "--output", path], { stdio: "ignore" });
      return path;
    } catch {
      return null;
    } finally {
      // The program ends with its input.
      child.stdin.end();
      await ended;
    }
  }

  remove() {
    rmSync(this.folder, { recursive: true });
  }
}

/** The collector among the children of `allotrope record`. */
function collectorOf(launcher) {
  const isIt = (pid) => {
    try {
      const parent = Number(readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").pop().split(" ")[1]);
      return parent === launcher && readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[1] === "__collect";
    } catch {
      // It has ended.
      return false;
    }
  };
  const found = readdirSync("/proc").filter((it) => /^\d+$/.test(it)).find(isIt);
  if (!found) throw new Error(`${launcher} has no collector`);
  return Number(found);
}
