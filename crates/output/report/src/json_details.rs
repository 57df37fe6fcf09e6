//! The details of a site in the JSON report: entry points, sizes, which threads allocate and
//! free its blocks, and where. Composed without serde, as everything of the [sites](crate::json_sites).

use allotrope_profile::{FreePlace, FreeStack, Lifetimes, SiteDetails, ThreadPair};

use crate::json_append::{append_float, append_lifetimes, append_name, append_number};

/// The fields of a site whose details were not gathered.
pub(crate) const NONE: &[u8] = b",\"lifetime_median_us\":null,\"smallest_bytes\":null,\"largest_bytes\":null,\"entries\":null,\"sizes\":null,\"threads\":null,\"frees\":null";

/// Appends the fields. `lifetimes`: of the site's blocks.
pub(crate) fn append(details: &SiteDetails, lifetimes: &Lifetimes, text: &mut Vec<u8>) {
    let median = details.lifetimes.median_ns(lifetimes).unwrap_or(0);
    append_float("lifetime_median_us", median as f64 / 1e3, text);
    append_number("smallest_bytes", details.smallest_bytes, text);
    append_number("largest_bytes", details.largest_bytes, text);
    append_list("entries", &details.entries, text, |it, text| {
        text.extend_from_slice(b"{\"entry\":\"");
        text.extend_from_slice(it.entry.name().as_bytes());
        text.push(b'"');
        match it.alignment {
            0 => text.extend_from_slice(b",\"alignment\":null"),
            alignment => append_number("alignment", alignment, text),
        }
        append_number("allocations", it.allocations, text);
        append_number("allocated_bytes", it.allocated_bytes, text);
    });
    append_list("sizes", &details.sizes, text, |it, text| {
        text.extend_from_slice(b"{\"up_to_bytes\":");
        text.extend_from_slice(itoa::Buffer::new().format(it.up_to_bytes).as_bytes());
        append_number("allocations", it.allocations, text);
        append_number("allocated_bytes", it.allocated_bytes, text);
    });
    append_list("threads", &details.threads, text, |it, text| {
        text.extend_from_slice(b"{\"thread\":");
        append_index(it.thread, text);
        append_number("allocations", it.allocations, text);
        append_number("allocated_bytes", it.allocated_bytes, text);
    });
    append_list("frees", &details.frees, text, append_pair);
    if !details.free_stacks.is_empty() {
        append_list("free_stacks", &details.free_stacks, text, append_free_stack);
    }
}

fn append_free_stack(it: &FreeStack, text: &mut Vec<u8>) {
    let (kind, reallocation) = match it.place {
        FreePlace::Stack { reallocation, .. } => ("stack", reallocation),
        FreePlace::Others => ("others", false),
        FreePlace::Unknown => ("unknown", false),
    };
    text.extend_from_slice(b"{\"kind\":\"");
    text.extend_from_slice(kind.as_bytes());
    text.extend_from_slice(b"\",\"stack\":[");
    for (at, &frame) in it.place.frames().iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        append_index(Some(frame), text);
    }
    text.push(b']');
    append_name("reallocation", text);
    text.extend_from_slice(reallocation.to_string().as_bytes());
    append_number("allocations", it.lifetimes.blocks, text);
    append_number("bytes", it.bytes, text);
    append_lifetimes(&it.lifetimes, text);
    append_list("threads", &it.threads, text, |it, text| {
        text.extend_from_slice(b"{\"thread\":");
        append_index(it.thread, text);
        append_number("allocations", it.blocks, text);
    });
}

fn append_pair(pair: &ThreadPair, text: &mut Vec<u8>) {
    text.extend_from_slice(b"{\"allocated_by\":");
    append_index(pair.allocated_by, text);
    append_name("freed_by", text);
    append_index(pair.freed_by, text);
    append_number("allocations", pair.lifetimes.blocks, text);
    append_number("bytes", pair.bytes, text);
    append_lifetimes(&pair.lifetimes, text);
}

fn append_index(index: Option<u32>, text: &mut Vec<u8>) {
    match index {
        Some(index) => text.extend_from_slice(itoa::Buffer::new().format(index).as_bytes()),
        None => text.extend_from_slice(b"null"),
    }
}

/// Appends a field with a list of objects; `append` writes one without its last brace.
fn append_list<T>(name: &str, list: &[T], text: &mut Vec<u8>, append: impl Fn(&T, &mut Vec<u8>)) {
    append_name(name, text);
    text.push(b'[');
    for (at, element) in list.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        append(element, text);
        text.push(b'}');
    }
    text.push(b']');
}
