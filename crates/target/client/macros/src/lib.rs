//! The attribute `#[allotrope::test]`. It is exported by `allotrope-client`, where it is
//! documented.
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

/// See `allotrope_client::test`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, function: TokenStream) -> TokenStream {
    match expanded(arguments, function.clone()) {
        Ok(expanded) => expanded,
        Err((message, span)) => {
            // The function stays, so that its users are not errors, too.
            let mut output = compile_error(&message, span);
            output.extend(function);
            output
        }
    }
}

type Error = (String, Span);

/// The arguments of the attribute.
struct Arguments {
    iterations: TokenStream,
    /// The name under which the crate `allotrope-client` is known.
    library: TokenStream,
}

/// The parts of a test function.
struct Function {
    /// Attributes, visibility and `fn`.
    head: TokenStream,
    name: Ident,
    /// The return type with its arrow, and a `where` clause.
    result: TokenStream,
    body: Group,
}

fn expanded(arguments: TokenStream, function: TokenStream) -> Result<TokenStream, Error> {
    let Arguments {
        iterations,
        library,
    } = parse_arguments(arguments)?;
    let Function {
        head,
        name,
        result,
        body,
    } = parse_function(function)?;
    let mut inner = tokens("fn measured()");
    inner.extend(result.clone());
    inner.extend([TokenTree::Group(body)]);
    inner.extend(tokens("::"));
    inner.extend(library);
    inner.extend(tokens("::measure_test"));
    let mut values = tokens("::core::module_path!(),");
    values.extend([TokenTree::Literal(Literal::string(&name.to_string()))]);
    values.extend(tokens(","));
    values.extend(iterations);
    values.extend(tokens(", measured"));
    inner.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, values))]);

    let mut output = tokens("#[::core::prelude::v1::test]");
    output.extend(head);
    output.extend([TokenTree::Ident(name)]);
    output.extend(tokens("()"));
    output.extend(result);
    output.extend([TokenTree::Group(Group::new(Delimiter::Brace, inner))]);
    Ok(output)
}

/// `iterations = 1000, crate = name`, both optional.
fn parse_arguments(arguments: TokenStream) -> Result<Arguments, Error> {
    const USAGE: &str = "write `#[allotrope::test]` or `#[allotrope::test(iterations = NUMBER)]`; \
                         `crate = NAME` names the crate if it is not `allotrope`";
    let mut parsed = Arguments {
        iterations: tokens("1"),
        library: tokens("allotrope"),
    };
    let mut arguments = arguments.into_iter();
    while let Some(key) = arguments.next() {
        let error = || (USAGE.to_owned(), key.span());
        let is_assigned = matches!(arguments.next(), Some(TokenTree::Punct(it)) if it == '=');
        let value: TokenStream = arguments
            .by_ref()
            .take_while(|token| !matches!(token, TokenTree::Punct(it) if *it == ','))
            .collect();
        if !is_assigned || value.is_empty() {
            return Err(error());
        }
        match key.to_string().as_str() {
            "iterations" => parsed.iterations = value,
            "crate" => parsed.library = value,
            _ => return Err(error()),
        }
    }
    Ok(parsed)
}

fn parse_function(function: TokenStream) -> Result<Function, Error> {
    let not_a_test = |span| {
        let message = "a test is a function without parameters that is neither `async` nor generic";
        (message.to_owned(), span)
    };
    let mut head = TokenStream::new();
    let mut rest = function.into_iter();
    loop {
        let token = rest.next().ok_or_else(|| not_a_test(Span::call_site()))?;
        let word = match &token {
            TokenTree::Ident(word) => word.to_string(),
            _ => String::new(),
        };
        if word == "async" {
            return Err(not_a_test(token.span()));
        }
        head.extend([token]);
        if word == "fn" {
            break;
        }
    }
    let name = match rest.next() {
        Some(TokenTree::Ident(name)) => name,
        _ => return Err(not_a_test(Span::call_site())),
    };
    match rest.next() {
        Some(TokenTree::Group(parameters))
            if parameters.delimiter() == Delimiter::Parenthesis
                && parameters.stream().is_empty() => {}
        _ => return Err(not_a_test(name.span())),
    }
    let mut result: Vec<TokenTree> = rest.collect();
    match result.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => Ok(Function {
            head,
            name,
            result: result.into_iter().collect(),
            body,
        }),
        _ => Err(not_a_test(name.span())),
    }
}

/// The tokens of a text of this file.
fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}

fn compile_error(message: &str, span: Span) -> TokenStream {
    let mut message = Literal::string(message);
    message.set_span(span);
    let mut output = tokens("::core::compile_error!");
    let message = TokenStream::from(TokenTree::Literal(message));
    let mut message = Group::new(Delimiter::Brace, message);
    message.set_span(span);
    output.extend([TokenTree::Group(message)]);
    output
}
