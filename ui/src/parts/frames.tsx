// The frames of a stack in order, in which runs of frames that say little are folded.

import type { ComponentChild } from "preact";
import { plural } from "../format";

interface FramesProps {
  count: number;
  isHidden: (i: number) => boolean;
  /** Shows those that are hidden. */
  onShow: () => void;
  /** The line of a frame. */
  frame: (i: number) => ComponentChild;
}

export function FrameList({ count, isHidden, onShow, frame }: FramesProps) {
  const lines: ComponentChild[] = [];
  for (let i = 0; i < count; ) {
    let end = i;
    while (end < count && isHidden(end)) end++;
    if (end > i) {
      lines.push(
        <li key={i}>
          <button type="button" class="quiet" onClick={onShow}>
            ⋯ {plural(end - i, i === 0 ? "inner frame" : "library frame")}
          </button>
        </li>,
      );
      i = end;
      continue;
    }
    lines.push(frame(i));
    i++;
  }
  return (
    <ol class="frames">
      {lines}
      {count === 0 && <li class="quiet">no frames</li>}
    </ol>
  );
}
