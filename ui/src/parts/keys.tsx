// The keys of the page, as a dialog.

import { useEffect, useRef } from "preact/hooks";

/** Those of the page of a recording. */
export const KEYS: [string, string][] = [
  ["1 – 5", "views"],
  ["/", "search"],
  ["j k", "next and previous row; Enter opens it"],
  ["[ ]", "move the range; without one, begin one"],
  ["{ }", "narrow and widen the range"],
  ["↑ ↓ ← →", "in the flame graph: choose a cell; Enter zooms"],
  ["c", "in the flame graph: copy the stack"],
  ["l", "library frames"],
  ["r", "resident set in the curve"],
  ["i", "turn the flame graph: from main, from the allocation"],
  ["d", "dark or light"],
  ["Esc", "undo one thing: zoom, row, search, range"],
  ["?", "these keys"],
];

export function Keys({ keys: all, hint = "", onClose }: { keys: [string, string][]; hint?: string; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-label="Keys" onClose={onClose}>
      <h2>Keys</h2>
      <dl>
        {all.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((it) => (it === "–" ? " – " : <kbd key={it}>{it}</kbd>))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      {hint !== "" && <p class="quiet">{hint}</p>}
      <button type="button" onClick={onClose}>
        Close
      </button>
    </dialog>
  );
}
