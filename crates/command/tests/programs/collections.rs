//! A Rust program that uses the standard collections the way programs do, and
//! prints a sum that depends on all of it.

use std::collections::{BTreeMap, HashMap, VecDeque};

#[derive(Debug, Clone)]
enum Value {
    Number(u64),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

fn parse(depth: u64, seed: &mut u64) -> Value {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    match (*seed >> 33) % if depth == 0 { 2 } else { 4 } {
        0 => Value::Number(*seed >> 40),
        1 => Value::Text(format!("text {}", *seed >> 40)),
        2 => Value::List((0..8).map(|_| parse(depth - 1, seed)).collect()),
        _ => Value::Object(
            (0..8)
                .map(|i| (format!("key {i}"), parse(depth - 1, seed)))
                .collect(),
        ),
    }
}

fn weigh(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number % 1_000,
        Value::Text(text) => text.len() as u64,
        Value::List(values) => values.iter().map(weigh).sum(),
        Value::Object(values) => values.iter().map(|(k, v)| k.len() as u64 + weigh(v)).sum(),
    }
}

fn main() {
    let mut seed = 7;
    let mut counts: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut recent = VecDeque::new();
    for round in 0..200 {
        let value = parse(4, &mut seed);
        let weight = weigh(&value);
        counts.entry(weight % 17).or_default().push(round);
        recent.push_back(Box::new(value.clone()));
        if recent.len() > 10 {
            recent.pop_front();
        }
    }
    let workers: Vec<_> = (0..4)
        .map(|i| std::thread::spawn(move || weigh(&parse(5, &mut (i + 1)))))
        .collect();
    let sum: u64 = workers.into_iter().map(|w| w.join().unwrap()).sum();
    let mut keys: Vec<_> = counts.iter().map(|(k, v)| (*k, v.len())).collect();
    keys.sort_unstable();
    println!("{sum} {keys:?} {}", recent.iter().map(|v| weigh(v)).sum::<u64>());
}
