// A few values of which one is chosen.

interface Props<T extends string> {
  label: string;
  values: readonly (readonly [T, string])[];
  value: T | null;
  onChange: (value: T) => void;
}

export function Choice<T extends string>({ label, values, value, onChange }: Props<T>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {values.map(([key, title]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>
          {title}
        </button>
      ))}
    </div>
  );
}
