//! Lines of fields, separated by commas.

/// One allocation: the line, which has its size from the start.
#[inline(never)]
pub fn encode(fields: &[String]) -> String {
    let size = fields.iter().map(|field| field.len() + 1).sum();
    let mut line = String::with_capacity(size);
    for field in fields {
        line.push_str(field);
        line.push(',');
    }
    line
}

/// One allocation for the list and one for each field.
#[inline(never)]
pub fn decode(line: &str) -> Vec<String> {
    let mut fields = Vec::with_capacity(line.matches(',').count());
    fields.extend(line.split_terminator(',').map(str::to_owned));
    fields
}
