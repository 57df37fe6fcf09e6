// A small curve in a row of a table: steps from bucket to bucket.

interface Props {
  values: ArrayLike<number>;
  width?: number;
  height?: number;
  label: string;
}

/** The values in at most so many columns: the maximum of each. */
function columns(values: ArrayLike<number>, count: number): number[] {
  const width = Math.min(count, values.length);
  return Array.from({ length: width }, (_, column) => {
    const from = Math.floor((column * values.length) / width);
    const to = Math.floor(((column + 1) * values.length) / width);
    let most = 0;
    for (let i = from; i < to; i++) most = Math.max(most, values[i]!);
    return most;
  });
}

export function Sparkline({ values, width = 96, height = 20, label }: Props) {
  const steps = columns(values, width / 2);
  const most = Math.max(...steps, 1);
  const step = width / Math.max(steps.length, 1);
  const y = (value: number) => (height - 1 - (value / most) * (height - 2)).toFixed(1);
  const line = steps.map((value, i) => `${i === 0 ? "M" : "V"}${i === 0 ? `0 ${y(value)}` : y(value)}H${((i + 1) * step).toFixed(1)}`).join("");
  return (
    <svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <path class="area" d={`${line}V${height - 0.5}H0Z`} />
      <path class="line" d={line} />
    </svg>
  );
}
