#!/usr/bin/env python3
"""Generates the corpus of programs with planted problems (README.md) and their truth.

    generate.py OUTPUT [--seed N] [--part tune|aside] [--only PATTERN] [--list]

Each program gets the folder OUTPUT/NAME with its source, its mended variant (the same program
without the mistake) and truth.json. The same seed gives the same programs.
"""

import argparse
import fnmatch
import hashlib
import json
import random
import re
from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent
KINDS = ["leak", "growth", "temporaries", "growth-chain", "queue", "spike", "stragglers",
         "not-given-back", "small-blocks", "peak"]
PROBLEM_PROGRAMS = {"c": 7, "cxx": 6, "rust": 6, "python": 3}  # of each kind
DOUBLE_PROGRAMS = {"c": 9, "cxx": 8, "rust": 7}
CLEAN_PROGRAMS = {"c": 36, "cxx": 32, "rust": 30, "python": 10}
SUFFIX = {"c": "c", "cxx": "cc", "rust": "rs", "python": "c"}

# Truth: how an accepted rule is compared is in ../findings-recall.
ALLOWED_FOR_INNOCENTS = ["peak"]


# --- Templates ---


class Fragment:
    """One way in which a problem (or innocent use of memory) arises."""

    def __init__(self, name, kind, language, header, code):
        self.name, self.kind, self.language, self.header, self.code = name, kind, language, header, code

    def words(self, key):
        return self.header.get(key, "").split()


def read_fragments(language, kind):
    path = HERE / "templates" / language / f"{kind}.txt"
    if not path.exists():
        return []
    fragments = []
    for part in re.split(r"^=== ", path.read_text(), flags=re.M)[1:]:
        head, code = part.split("\n---\n", 1)
        name, *lines = head.splitlines()
        header = {}
        for line in lines:
            key, _, value = line.partition(":")
            header[key] = value.strip()
        fragments.append(Fragment(name.strip(), kind, language, header, code))
    return fragments


def read_domains():
    domains = []
    for line in (HERE / "domains.txt").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            name, chain, background = (field.strip() for field in line.split("|"))
            domains.append({"name": name, "chain": chain.split(), "background": background.split(), "nouns": []})
            continue
        words, text = line.split("|", 1)
        keys = ["Item", "item", "Part", "part", "f1", "f2", "Owner", "owner", "verb"]
        nouns = dict(zip(keys, words.split(), strict=True))
        nouns["text"] = text.strip().replace('"', '\\"')
        # "%d" of the text is for printf; std::format and format! write braces.
        nouns["rust_text"] = nouns["text"].replace("{", "{{").replace("}", "}}").replace("%d", "{}")
        domains[-1]["nouns"].append(nouns)
    return domains


def blocks(lines):
    """Lines as a tree: text, or ("bad"|"alt", [branch, …])."""
    at = 0

    def parse(end):
        nonlocal at
        result = []
        while at < len(lines):
            line = lines[at].strip()
            if line in end:
                return result
            at += 1
            if line in ("%bad", "%good", "%alt"):
                kind = "alt" if line == "%alt" else "bad"
                branches = [] if line != "%good" else [[]]
                while True:
                    branches.append(parse(("%or", "%good", "%end")))
                    at += 1
                    if lines[at - 1].strip() == "%end":
                        break
                result.append((kind, branches))
            else:
                result.append(lines[at - 1])
        return result

    return parse(())


def choose(tree, rng, mended):
    """The tree's lines; random numbers are drawn for the branches that are left out, too."""
    lines = []
    for node in tree:
        if isinstance(node, str):
            lines.append(node)
        elif node[0] == "alt":
            lines += choose(rng.choice(node[1]), rng, mended)
        else:
            branches = [choose(branch, rng, mended) for branch in node[1]] + [[]]
            lines += [f"\0{1 if which else 0}{line}" for which in (0, 1) for line in branches[which]]
    return lines


def fill(text, rng, values):
    def number(found):
        name, choice = found[1], found[2]
        span = re.fullmatch(r"(\d+)\.\.(\d+)", choice)
        value = str(rng.randint(int(span[1]), int(span[2]))) if span else rng.choice(choice.split("|"))
        if name:
            values[name[:-1]] = value
        return value

    text = re.sub(r"@\((\w+=)?([^()\n]*)\)", number, text)
    return re.sub(r"@(\w+)", lambda found: values.get(found[1], found[0]), text)


def expand(fragment, rng, mended, names):
    lines = choose(blocks(fragment.code.splitlines()), rng, mended)
    values = {}
    text = fill("\n".join(lines), rng, values)
    chosen = []
    for line in text.splitlines():
        # A line in nested branches has several marks, the innermost last.
        marks = re.match(r"(?:\0[01])*", line)[0]
        if all(mark == ("1" if mended else "0") for mark in marks[1::2]):
            chosen.append(line[len(marks):])
    expand_name = lambda s: Template(fill(s, rng, values)).substitute(names)
    calls = {}
    for key in ("setup", "step", "finish", "type"):
        calls[key] = expand_name(fragment.header.get(key, ""))
    maybe = rng.random() < 0.5
    if fragment.header.get("%finish-maybe") and maybe:
        calls["finish"] = expand_name(fragment.header["%finish-maybe"])
    code = Template("\n".join(chosen)).substitute(names)
    return code, calls


# --- Structure around the components ---

C_WRAPPERS = [
    ("{p}malloc", "{p}calloc", "{p}realloc", "{p}strdup"),
    ("{p}alloc", "{p}alloc_zeroed", "{p}resize", "{p}copy_text"),
]


def c_wrappers(rng, names):
    """Sometimes the program allocates through wrappers of its own."""
    style = rng.randrange(3)
    plain = {"malloc": "malloc", "calloc": "calloc", "realloc": "realloc", "strdup": "strdup"}
    if style == 0:
        names.update(plain)
        return "", []
    prefix = rng.choice(["x", "mem_", "safe_", "my_"])
    functions = [name.format(p=prefix) for name in C_WRAPPERS[style - 1]]
    names.update(zip(plain, functions))
    m, c, r, s = functions
    die = rng.choice(["abort()", "exit(70)", "(fputs(\"out of memory\\n\", stderr), exit(1))"])
    unused = "__attribute__((unused)) static"
    return f"""
{unused} void *{m}(size_t size) {{
    void *block = malloc(size);
    if (!block && size)
        {die};
    return block;
}}
{unused} void *{c}(size_t count, size_t size) {{
    void *block = calloc(count, size);
    if (!block && size)
        {die};
    return block;
}}
{unused} void *{r}(void *block, size_t size) {{
    block = realloc(block, size);
    if (!block)
        {die};
    return block;
}}
{unused} char *{s}(const char *text) {{
    size_t length = strlen(text) + 1;
    return memcpy({m}(length), text, length);
}}
""", functions


def c_chain(rng, functions, calls, cxx):
    """Functions that call each other, the innermost of which makes `calls`; returns code, call."""
    code = ""
    inner = calls
    for depth, function in enumerate(reversed(functions)):
        attribute = rng.choice(["static", "__attribute__((noinline)) static"])
        style = rng.randrange(4 if cxx else 3)
        body = "\n".join(f"    {call}" for call in inner)
        if style == 0 or depth == 0 and style < 2:
            code += f"\n{attribute} void {function}(int i) {{\n{body}\n}}\n"
        elif style == 1:
            code += (f"\n{attribute} void {function}(int i) {{\n    if (i < 0 || i > 100000000)\n        return;\n"
                     f"{body}\n    checksum += i % 3;\n}}\n")
        elif style == 2:
            code += (f"\nstatic void {function}_handler(int i) {{\n{body}\n}}\n"
                     f"static void {function}_idle(int i) {{ checksum += i; }}\n"
                     f"static void (*volatile {function}_handlers[])(int) = {{{function}_idle, {function}_handler}};\n"
                     f"static void {function}(int i) {{\n    for (int n = 0; n < 2; n++)\n"
                     f"        {function}_handlers[n](i);\n}}\n")
        else:
            code += (f"\nstatic void {function}(int i) {{\n"
                     f"    static const std::function<void(int)> stage = [](int i) {{\n{body}\n    }};\n"
                     f"    stage(i);\n}}\n")
        inner = [f"{function}(i);"]
    return code, inner[0]


def rust_chain(rng, functions, components):
    """Like c_chain; a component is (variable, type, step)."""
    code = ""
    parameters = ", ".join(f"{v}: &mut {t}" for v, t, _ in components)
    passed = ", ".join(v for v, _, _ in components)
    body = "\n".join("    " + re.sub(r"\bs\.", f"{v}.", step) for v, _, step in components)
    for depth, function in enumerate(reversed(functions)):
        attribute = rng.choice(["", "#[inline(never)]\n"])
        style = rng.randrange(3)
        if style == 0 or not depth:
            code += f"\n{attribute}fn {function}({parameters}, i: usize) {{\n{body}\n}}\n"
        elif style == 1:
            code += f"\n{attribute}fn {function}({parameters}, i: usize) {{\n    if i > 100_000_000 {{\n        return;\n    }}\n{body}\n    sink(i as u64 % 3);\n}}\n"
        else:
            code += (f"\n{attribute}fn {function}({parameters}, i: usize) {{\n"
                     f"    let mut stage: Box<dyn FnMut(usize) + '_> = Box::new(|i| {{\n{body}\n    }});\n    stage(i);\n}}\n")
        body = f"    {function}({passed}, i);"
    outer = functions[0]
    by_reference = ", ".join(f"&mut {v}" for v, _, _ in components)
    return code, f"{outer}({by_reference}, i);"


# --- Programs ---


def digest(name):
    return hashlib.sha256(name.encode()).digest()


def part_of(name):
    return "tune" if digest(name)[0] % 2 == 0 else "aside"


def pool(fragments, part):
    """A third of the fragments is for one part only, a third for the other, the rest for both."""
    wanted = [f for n, f in enumerate(fragments) if n % 3 != (1 if part == "tune" else 0)]
    return wanted or fragments


def plan():
    """(name, domain index, language, kinds) of each program."""
    domains = read_domains()
    serial = 0
    programs = []

    def add(language, kinds, label):
        nonlocal serial
        domain = serial % len(domains)
        # One more after each round, so that each kind meets each domain.
        domain = (domain + serial // len(domains)) % len(domains)
        name = f"{domains[domain]['name']}-{language}-{label}-{serial:03}"
        programs.append((name, domain, language, kinds))
        serial += 1

    for language, count in PROBLEM_PROGRAMS.items():
        for _ in range(count):
            for kind in KINDS:
                add(language, [kind], kind)
    for language, count in DOUBLE_PROGRAMS.items():
        for n in range(count):
            first = KINDS[n % 10]
            second = KINDS[(n + 1 + n // 2 + len(language)) % 10]
            add(language, [first, second if second != first else KINDS[(n + 5) % 10]], "two")
    for language, count in CLEAN_PROGRAMS.items():
        for _ in range(count):
            add(language, [], "clean")
    return programs


def write_if_new(path, text):
    """An equal file keeps its time, so that the program is not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


FUNCTION = {
    "c": re.compile(r"^(?!__attribute__)(?:[\w:<>,*&~\[\]]+[\s*&]+)*?[*&]?~?((?:\w+::)*\w+)\([^;]*\)[\w\s]*\{"),
    "rust": re.compile(r"^\s*(?:pub )?(?:unsafe )?fn (\w+)"),
}
FUNCTION["python"] = FUNCTION["c"]
FUNCTION["cxx"] = re.compile(
    r"^\s*(?!(?:if|for|while|switch|else|return|do)\b)(?:(?:[\w:<>,*&\[\]]+)[\s*&]+)*(~?[\w]+)\([^;{}]*\)[^;{}]*\{")


def functions_of(language, lines):
    """The name of the function that each line is in."""
    current, names = None, []
    for line in lines:
        found = FUNCTION[language].match(line)
        if found and found[1] not in ("if", "for", "while", "switch"):
            current = found[1]
        names.append(current)
    return names


class Program:
    def __init__(self, name, domain, language, kinds, seed, turns):
        self.name, self.domain, self.language, self.kinds = name, domain, language, kinds
        self.part = part_of(name)
        self.rng = random.Random(f"{seed}/{name}")
        rng = self.rng
        self.code_language = "c" if language == "python" else language
        innocents = pool(read_fragments(self.code_language, "innocent"), self.part)
        self.planted = []
        for kind in kinds:
            self.planted.append(self.pick(kind, turns))
        self.mended_only = not kinds and rng.random() < 0.6
        if self.mended_only:
            self.planted.append(self.pick(rng.choice(KINDS), turns))
        count = rng.randint(2, 4) if self.planted else rng.randint(4, min(7, len(innocents)))
        self.innocents = rng.sample(innocents, min(count, len(innocents)))
        self.steps = rng.randint(30, 80)
        dice = rng.random()
        seconds = rng.uniform(0.3, 1.2) if dice < 0.55 else rng.uniform(1.2, 3) if dice < 0.9 else \
            rng.uniform(3, 10) if dice < 0.96 else rng.uniform(10, 60)
        self.pause = int(seconds * 1e6 / self.steps)
        self.scale = rng.choice([1, 1, 1, 2, 3])
        self.bulk = rng.choice([1, 1, 2, 4])
        self.order_seed = rng.random()
        self.nouns = list(domain["nouns"])
        rng.shuffle(self.nouns)

    def pick(self, kind, turns):
        candidates = pool(read_fragments(self.language, kind), self.part) if self.language != "python" else \
            pool(read_fragments("python", kind) + read_fragments("c", kind), self.part)
        key = (self.language, kind, self.part)
        turns[key] = turns.get(key, -1) + 1
        return candidates[turns[key] % len(candidates)]

    def render(self, mended):
        """The source and its truth; the same random choices for both variants."""
        rng = random.Random(self.order_seed)
        names = {"steps": self.steps, "scale": self.scale, "bulk": self.bulk, "pause": self.pause}
        names.update(self.nouns[0])
        wrappers, wrapper_names = c_wrappers(rng, names) if self.code_language == "c" else ("", [])
        parts = []  # (fragment, planted index or None, code, calls)
        for n, fragment in enumerate(self.planted):
            own = dict(names, **self.nouns[n])
            code, calls = expand(fragment, random.Random(f"{self.order_seed}/{n}"), mended, own)
            parts.append((fragment, n, f"//@begin {n}\n{code}\n//@end", calls))
        for fragment in self.innocents:
            code, calls = expand(fragment, random.Random(f"{self.order_seed}/{fragment.name}"), mended, names)
            parts.append((fragment, None, f"//@begin innocent\n{code}\n//@end", calls))
        ordered = list(parts)
        rng.shuffle(ordered)
        structure = self.rust(rng, parts, ordered) if self.code_language == "rust" else self.c(rng, parts, ordered)
        program = (HERE / "templates" / self.code_language / "_program.txt").read_text()
        text = Template(program).substitute(names, wrappers=wrappers, **structure)
        if self.language == "python":
            text = "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n" + text
        return self.finish(text, wrapper_names, mended)

    def groups(self, rng, parts):
        """Which parts the domain's functions call, and which the background's."""
        planted = [p for p in parts if p[1] is not None]
        others = [p for p in parts if p[1] is None]
        front, back = planted[:1], planted[1:]
        for part in others:
            (front if rng.random() < 0.4 else back).append(part)
        if not front:
            front.append(back.pop())
        rng.shuffle(front)
        chain = self.domain["chain"][: rng.randint(1, 3)]
        background = self.domain["background"][: rng.randint(1, 2)]
        return [(chain, front)] + ([(background, back)] if back else [])

    def c(self, rng, parts, ordered):
        cxx = self.language == "cxx"
        chains, steps = "", []
        for functions, group in self.groups(rng, parts):
            code, call = c_chain(rng, functions, [p[3]["step"] for p in group], cxx)
            chains += code
            steps.append(call)
        setup = "".join(f"    {p[3]['setup']}\n" for p in ordered if p[3]["setup"])
        finish = "".join(f"    {p[3]['finish']}\n" for p in reversed(ordered) if p[3]["finish"])
        loop = "".join(f"        {step}\n" for step in steps)
        if self.language == "python":
            main = python_module(setup, loop, finish)
        else:
            main = (f"int main({'' if cxx else 'void'}) {{\n{setup}    for (int i = 0; i < STEPS; i++) {{\n{loop}"
                    f"        pause_us({self.pause});\n    }}\n{finish}    return 0;\n}}\n")
        return {"components": "\n".join(p[2] for p in ordered), "chains": chains, "main": main}

    def rust(self, rng, parts, ordered):
        chains, steps = "", []
        variable = {id(p): f"s{n}" for n, p in enumerate(ordered)}
        for functions, group in self.groups(rng, parts):
            components = [(variable[id(p)], p[3]["type"], p[3]["step"]) for p in group]
            code, call = rust_chain(rng, functions, components)
            chains += code
            steps.append(call)
        setup = "".join(f"    let mut {variable[id(p)]} = {p[3]['setup']};\n" for p in ordered)
        finish = "".join(f"    let s = {variable[id(p)]};\n    {p[3]['finish']}\n" for p in reversed(ordered) if p[3]["finish"])
        loop = "".join(f"        {step}\n" for step in steps)
        main = (f"fn main() {{\n{setup}    for i in 0..STEPS {{\n{loop}        pause_us({self.pause});\n    }}\n{finish}}}\n")
        return {"components": "\n".join(p[2] for p in ordered), "chains": chains, "main": main}

    def finish(self, text, wrapper_names, mended):
        lines, owner, marks = [], [], []
        current = None
        for line in text.splitlines():
            begin = re.match(r"//@(begin|end) ?(\w*)", line)
            if begin:
                current = begin[2] if begin[1] == "begin" else None
                continue
            marks.append(line.rstrip().endswith("//@A"))
            lines.append(re.sub(r"\s*//@A\s*$", "", line))
            owner.append(current)
        within = functions_of(self.code_language, lines)
        problems = []
        culprit_functions = set()
        if self.kinds:
            for n, fragment in enumerate(self.planted):
                places = [{"function": within[at], "line": at + 1} for at in range(len(lines))
                          if marks[at] and owner[at] == str(n)]
                culprit_functions |= {place["function"] for place in places}
                problems.append({
                    "kind": fragment.kind, "fragment": fragment.name, "rules": fragment.words("rules"),
                    "also": fragment.words("also"), "lowers": fragment.words("lower"),
                    "mended": fragment.header.get("mended", ""), "culprits": places,
                })
        innocents = sorted({f for f, o in zip(within, owner)
                            if f and o and (o == "innocent" or not self.kinds) and f not in culprit_functions})
        truth = {
            "name": self.name, "part": self.part, "language": self.language, "domain": self.domain["name"],
            "problems": problems, "wrappers": wrapper_names, "innocents": innocents,
            "innocents_may": ALLOWED_FOR_INNOCENTS, "seconds": round(self.steps * self.pause / 1e6, 2),
            "fragments": [f.name for f in self.planted + self.innocents],
        }
        return "\n".join(lines) + "\n", truth

    def write(self, output):
        folder = Path(output) / self.name
        folder.mkdir(parents=True, exist_ok=True)
        stem = self.domain["name"].replace("-", "_")
        clean = not self.kinds
        source, truth = self.render(mended=clean)
        truth["source"] = f"{stem}.{SUFFIX[self.language]}"
        # A clean program has no mistake to mend.
        if not clean:
            truth["mended_source"] = f"{stem}_mended.{SUFFIX[self.language]}"
            write_if_new(folder / truth["mended_source"], self.render(mended=True)[0])
        write_if_new(folder / truth["source"], source)
        if self.language == "python":
            write_if_new(folder / "drive.py", python_driver(self))
        write_if_new(folder / "truth.json", json.dumps(truth, indent=1) + "\n")


# --- Python ---


def python_module(setup, loop, finish):
    return f"""
static PyObject *engine_open(PyObject *self, PyObject *unused) {{
{setup}    Py_RETURN_NONE;
}}

static PyObject *engine_step(PyObject *self, PyObject *argument) {{
    int i = (int)PyLong_AsLong(argument);
{loop}    return PyLong_FromUnsignedLong(checksum & 0xffff);
}}

static PyObject *engine_close(PyObject *self, PyObject *unused) {{
{finish}    Py_RETURN_NONE;
}}

static PyMethodDef engine_methods[] = {{
    {{"open", engine_open, METH_NOARGS, NULL}},
    {{"step", engine_step, METH_O, NULL}},
    {{"close", engine_close, METH_NOARGS, NULL}},
    {{NULL, NULL, 0, NULL}},
}};

static struct PyModuleDef engine_module = {{PyModuleDef_HEAD_INIT, "engine", NULL, -1, engine_methods}};

PyMODINIT_FUNC PyInit_engine(void) {{
    return PyModule_Create(&engine_module);
}}
"""


def python_driver(program):
    """Python around the extension, with data of its own."""
    rng = random.Random(program.order_seed)
    outer, inner = program.domain["chain"][0], program.domain["chain"][-1]
    table = rng.choice(["{str(n): n * 2 for n in range(3000)}", "list(range(20000))", "[str(n) for n in range(4000)]"])
    return f"""import sys
import time

sys.path.insert(0, sys.argv[1])
import engine

TABLE = {table}


def {inner}(i):
    recent = [x for x in range(i % 50)]
    return engine.step(i) + len(recent) + len(TABLE)


def {outer}():
    total = 0
    for i in range({program.steps}):
        total += {inner}(i)
        time.sleep({program.pause / 1e6:.6f})
    return total


engine.open()
{outer}()
engine.close()
"""


def programs(seed, part=None, only=None):
    """All programs of the plan; those that are left out take their turn, too."""
    domains = read_domains()
    turns = {}
    for name, domain, language, kinds in plan():
        program = Program(name, domains[domain], language, kinds, seed, turns)
        if (part in (None, program.part)) and (only is None or fnmatch.fnmatch(name, only)):
            yield program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--part", choices=["tune", "aside"])
    parser.add_argument("--only")
    parser.add_argument("--list", action="store_true", help="print names only")
    options = parser.parse_args()
    for program in programs(options.seed, options.part, options.only):
        print(program.name, program.part)
        if not options.list:
            program.write(options.output)


if __name__ == "__main__":
    main()
