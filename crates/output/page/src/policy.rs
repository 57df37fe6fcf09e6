//! What a server of the page allows it: its own scripts and styles, known by their hashes, and
//! nothing else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::PAGE;

/// The value of the header `Content-Security-Policy` (Content Security Policy Level 3) with which
/// a page can be served: only the scripts and styles that are part of the page run, nothing is
/// fetched, and no other page may frame it.
pub fn content_security_policy() -> String {
    let mut sources = [String::new(), String::new()];
    for (kind, text) in inline(PAGE) {
        let hash = STANDARD.encode(Sha256::digest(text.as_bytes()));
        sources[kind as usize].push_str(&format!(" 'sha256-{hash}'"));
    }
    let [scripts, styles] = sources;
    format!(
        "default-src 'none'; script-src{scripts}; style-src{styles}; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Script,
    Style,
}

/// The contents of the page's own scripts and styles. The page is ours and has no such tags in
/// comments, and none in the scripts that would end too early there.
fn inline(page: &str) -> Vec<(Kind, &str)> {
    let tags = [
        (Kind::Script, "<script", "</script>"),
        (Kind::Style, "<style", "</style>"),
    ];
    let mut all = Vec::new();
    let mut rest = page;
    loop {
        let next = tags
            .iter()
            .filter_map(|tag| rest.find(tag.1).map(|at| (at, tag)))
            .min_by_key(|(at, _)| *at);
        let Some((at, &(kind, _, end))) = next else {
            return all;
        };
        let element = &rest[at..];
        let Some((text, after)) = element
            .split_once('>')
            .and_then(|(_, content)| content.split_once(end))
        else {
            return all;
        };
        all.push((kind, text));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_styles_are_found_whole() {
        let page = "<script type=\"module\">let a = '<style>';</script><p><style>b{}</style><script></script>";
        let expected = [
            (Kind::Script, "let a = '<style>';"),
            (Kind::Style, "b{}"),
            (Kind::Script, ""),
        ];
        assert_eq!(inline(page), expected);
    }

    #[test]
    fn the_page_has_one_script_and_one_style_and_nothing_else_is_allowed() {
        let policy = content_security_policy();
        assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
