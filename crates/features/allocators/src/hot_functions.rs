//! The functions in which instructions are executed.

use std::collections::HashMap;

use crate::paths::report::Allocator as Stepped;
use serde::Serialize;

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotFunction {
    /// Name of the function.
    pub function: String,
    /// The source file of its first executed line; empty if unknown.
    pub file: String,
    /// The number of that line; 0 if unknown.
    pub line: u32,
    /// The file of its code.
    pub module: String,
    /// Whether it belongs to the allocator.
    pub allocator: bool,
    /// Instructions of the function itself, an operation (of all).
    pub instructions: f64,
    /// Share of all instructions, 0 to 1.
    pub share_of_instructions: f64,
}

/// The functions, by their own instructions in all paths.
pub(crate) fn functions(stepped: &Stepped) -> Vec<HotFunction> {
    let mut sums: HashMap<(&str, &str), HotFunction> = HashMap::new();
    for path in &stepped.paths {
        let part = share_of_all(path.operations, stepped);
        for function in &path.functions {
            let key = (&*function.function, &*function.module);
            let row = sums.entry(key).or_insert_with(|| HotFunction {
                function: function.function.clone(),
                file: function.file.clone(),
                line: function.line,
                module: function.module.clone(),
                allocator: function.allocator,
                instructions: 0.0,
                share_of_instructions: 0.0,
            });
            row.instructions += function.instructions * part;
        }
    }
    let mut rows: Vec<HotFunction> = sums.into_values().collect();
    // The tables are of the first run, and so is their sum: the mean is of all runs.
    let all = rows.iter().fold(0.0, |sum, it| sum + it.instructions);
    for row in &mut rows {
        row.share_of_instructions = if all > 0.0 {
            row.instructions / all
        } else {
            0.0
        };
    }
    rows.sort_by(|a, b| {
        let by_weight = b.instructions.total_cmp(&a.instructions);
        by_weight.then_with(|| (&a.function, &a.module).cmp(&(&b.function, &b.module)))
    });
    rows
}

pub(crate) fn share_of_all(operations: u64, stepped: &Stepped) -> f64 {
    operations as f64 / stepped.operations.max(1) as f64
}
