// Hatching on canvases: a time in which events are missing.

import { color } from "./colors";

/** Hatches a rectangle, and writes a text in it if there is room. `scale` is the number of
 * canvas pixels of one of the page. */
export function hatch(context: CanvasRenderingContext2D, [x, y, width, height]: [number, number, number, number], scale: number, text = ""): void {
  const wide = Math.max(width, 3 * scale);
  const step = 7 * scale;
  context.save();
  context.beginPath();
  context.rect(x, y, wide, height);
  context.clip();
  context.strokeStyle = color("text3");
  context.globalAlpha = 0.55;
  context.setLineDash([]);
  context.lineWidth = 1.2 * scale;
  context.beginPath();
  // On one grid, so that neighbours continue each other.
  for (let at = Math.floor((x - height) / step) * step; at < x + wide; at += step) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.globalAlpha = 1;
  context.font = `${11 * scale}px system-ui, sans-serif`;
  if (text !== "" && context.measureText(text).width + 8 * scale <= wide) {
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 5 * scale;
    context.lineJoin = "round";
    context.strokeStyle = color("bg");
    context.strokeText(text, x + wide / 2, y + height / 2);
    context.fillStyle = color("text2");
    context.fillText(text, x + wide / 2, y + height / 2);
  }
  context.restore();
}
