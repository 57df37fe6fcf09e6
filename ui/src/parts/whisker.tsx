// A value as a bar with its interval, on the scale of `most`.

export function Whisker({ value, low, high, most }: { value: number; low: number; high: number; most: number }) {
  const at = (part: number) => `${((part / most) * 56).toFixed(1)}`;
  return (
    <svg width="58" height="8" aria-hidden="true">
      <path d={`M0 4H${at(Math.min(value, most))}`} class="value" />
      <path d={`M${at(low)} 4H${at(high)}M${at(low)} 1V7M${at(high)} 1V7`} class="whisker" />
      <circle cx={at(Math.min(value, most))} cy="4" r="2.2" class="estimate" />
    </svg>
  );
}
