// Names of functions and amounts of bytes, as all tables show them.

import { bytesParts, count, nameParts } from "../format";

/** A function's name: its type in grey, itself in bold; the whole name on hover. */
export function FunctionName({ name, place = "" }: { name: string; place?: string }) {
  const [before, last] = nameParts(name);
  return (
    <span class="function" title={place === "" ? name : `${name}\n${place}`}>
      <code>
        {before}
        <b>{last}</b>
      </code>
      {place !== "" && <span class="place"> {place}</span>}
    </span>
  );
}

/** A sentence; what it has between backticks is code. */
export function Prose({ text }: { text: string }) {
  return <>{text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>;
}

/** Bytes; exact ones on hover. */
export function Bytes({ value, none = false }: { value: number; none?: boolean }) {
  if (none && value === 0) return <>–</>;
  const [number, unit] = bytesParts(value);
  return (
    <span title={`${count(value)} bytes`}>
      {number}
      <span class="unit">{`\u00a0${unit}`}</span>
    </span>
  );
}
