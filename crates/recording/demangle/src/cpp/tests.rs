//! C++ names. The expected signatures are those of GNU c++filt, with the spacing of this
//! crate's demangler. The expected functions are the same without parameters.

use crate::demangle;

fn check(cases: &[(&str, &str, &str)]) {
    for (raw, function, signature) in cases {
        let names = demangle(raw);
        assert_eq!(names.function, *function, "{raw}");
        assert_eq!(names.signature, *signature, "{raw}");
    }
}

#[test]
fn plain_functions_and_members() {
    check(&[
        ("_ZL3foov", "foo", "foo()"),
        ("_ZN3foo3barEv", "foo::bar", "foo::bar()"),
        ("_ZNK1A1fEv", "A::f", "A::f() const"),
        ("_ZNO1A1fEv", "A::f", "A::f() &&"),
        ("_ZNR1A1fEv", "A::f", "A::f() &"),
        (
            "_ZN12_GLOBAL__N_11fEi",
            "(anonymous namespace)::f",
            "(anonymous namespace)::f(int)",
        ),
        ("_ZN1A1fB5cxx11Ev", "A::f[abi:cxx11]", "A::f[abi:cxx11]()"),
    ]);
}

#[test]
fn constructors_and_destructors_of_every_kind_have_the_same_names() {
    for kind in ["C1", "C2", "C3", "C4"] {
        assert_eq!(demangle(&format!("_ZN3Foo{kind}Ei")).function, "Foo::Foo");
    }
    for kind in ["D0", "D1", "D2"] {
        assert_eq!(demangle(&format!("_ZN3Foo{kind}Ev")).function, "Foo::~Foo");
    }
}

#[test]
fn operators() {
    check(&[
        ("_ZN1AplEi", "A::operator+", "A::operator+(int)"),
        (
            "_ZNK3FooclEi",
            "Foo::operator()",
            "Foo::operator()(int) const",
        ),
        ("_ZN1AclEv", "A::operator()", "A::operator()()"),
        ("_Zls1AS_", "operator<<", "operator<<(A, A)"),
        ("_ZN1AptEv", "A::operator->", "A::operator->()"),
        ("_ZN1ApmEv", "A::operator->*", "A::operator->*()"),
        ("_ZN1AixEi", "A::operator[]", "A::operator[](int)"),
        ("_ZN1AanEi", "A::operator&", "A::operator&(int)"),
        ("_ZN1AaaEi", "A::operator&&", "A::operator&&(int)"),
        (
            "_ZN1AltIiEEbT_",
            "A::operator< <int>",
            "bool A::operator< <int>(int)",
        ),
        ("_Znwm", "operator new", "operator new(unsigned long)"),
        ("_Znam", "operator new[]", "operator new[](unsigned long)"),
        ("_ZdaPv", "operator delete[]", "operator delete[](void*)"),
    ]);
}

#[test]
fn conversions_keep_their_type() {
    check(&[
        (
            "_ZNK3FoocvbEv",
            "Foo::operator bool",
            "Foo::operator bool() const",
        ),
        (
            "_ZN1AcvKiEv",
            "A::operator int const",
            "A::operator int const()",
        ),
        ("_ZN1AcvRiEv", "A::operator int&", "A::operator int&()"),
        (
            "_ZN1AcvPFviEEv",
            "A::operator void (*)(int)",
            "A::operator void (*)(int)()",
        ),
        (
            "_ZN3FoocvSt6vectorIiSaIiEEEv",
            "Foo::operator std::vector<int, std::allocator<int> >",
            "Foo::operator std::vector<int, std::allocator<int> >()",
        ),
    ]);
}

#[test]
fn template_functions_lose_their_return_type() {
    check(&[
        ("_Z3fooIiEvT_", "foo<int>", "void foo<int>(int)"),
        ("_Z1fIiEDcT_", "f<int>", "decltype(auto) f<int>(int)"),
        (
            "_Z3fooIJiiEEvDpT_",
            "foo<int, int>",
            "void foo<int, int>(int, int)",
        ),
        (
            "_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_",
            "std::move<int&>",
            "std::remove_reference<int&>::type&& std::move<int&>(int&)",
        ),
    ]);
    // A returned function pointer surrounds the name.
    assert_eq!(demangle("_Z3fooIiEPFvvET_").function, "foo<int>");
    assert_eq!(demangle("_ZplIiEDTplfp_fp_ET_").function, "operator+<int>");
}

#[test]
fn template_arguments_of_all_kinds_stay() {
    check(&[
        (
            "_ZNSt6vectorIiSaIiEE9push_backEOi",
            "std::vector<int, std::allocator<int> >::push_back",
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
        ),
        (
            "_ZNSt17_Function_handlerIFviEZ4mainEUliE_E9_M_invokeERKSt9_Any_dataOi",
            "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke",
            "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke(std::_Any_data const&, int&&)",
        ),
        (
            "_Z1fIXgtLi3ELi2EEEvv",
            "f<((3)>(2))>",
            "void f<((3)>(2))>()",
        ),
        (
            "_Z1fILPFvvE0EEvv",
            "f<(void (*)())0>",
            "void f<(void (*)())0>()",
        ),
        ("_ZN1AILm4EE1fEv", "A<4ul>::f", "A<4ul>::f()"),
        (
            "_ZN1AILln4ELj7ELx1ELy2EE1fEv",
            "A<-4l, 7u, 1ll, 2ull>::f",
            "A<-4l, 7u, 1ll, 2ull>::f()",
        ),
    ]);
    // A pointer to a member whose class has `->` among its operators.
    assert_eq!(
        demangle("_Z1fIXadL_ZN1AptEvEEEvv").function,
        "f<&A::operator->()>"
    );
}

#[test]
fn empty_parameter_packs_leave_no_commas() {
    check(&[
        ("_Z1fIiJEEvv", "f<int>", "void f<int>()"),
        ("_Z1fIiJEJEEvv", "f<int>", "void f<int>()"),
        ("_Z1fIJEEvv", "f<>", "void f<>()"),
        ("_Z1fIJEiEvDpT_i", "f<int>", "void f<int>(int)"),
    ]);
}

#[test]
fn lambdas_and_local_functions() {
    check(&[
        (
            "_ZZ4mainENKUlvE_clEv",
            "main::{lambda()#1}::operator()",
            "main::{lambda()#1}::operator()() const",
        ),
        (
            "_ZZ4mainENKUliE0_clEi",
            "main::{lambda(int)#2}::operator()",
            "main::{lambda(int)#2}::operator()(int) const",
        ),
        (
            "_ZZN3foo3barEiENKUlvE_clEv",
            "foo::bar(int)::{lambda()#1}::operator()",
            "foo::bar(int)::{lambda()#1}::operator()() const",
        ),
        (
            "_ZZZ4mainENKUlvE_clEvENKUliE_clEi",
            "main::{lambda()#1}::operator()() const::{lambda(int)#1}::operator()",
            "main::{lambda()#1}::operator()() const::{lambda(int)#1}::operator()(int) const",
        ),
        (
            "_ZZN1A1BEvENUt_1gEv",
            "A::B()::{unnamed type#1}::g",
            "A::B()::{unnamed type#1}::g()",
        ),
    ]);
    // The return type of an enclosing template does not belong to the function.
    assert_eq!(
        demangle("_ZZ3fooIiEvT_ENKUlvE_clEv").function,
        "foo<int>(int)::{lambda()#1}::operator()"
    );
}

#[test]
fn thunks_are_named_after_their_target() {
    check(&[
        (
            "_ZThn8_N1A1fEv",
            "non-virtual thunk to A::f",
            "non-virtual thunk to A::f()",
        ),
        (
            "_ZTv0_n24_N1A1fEv",
            "virtual thunk to A::f",
            "virtual thunk to A::f()",
        ),
        (
            "_ZTch0_h16_N1A1fEv",
            "covariant return thunk to A::f",
            "covariant return thunk to A::f()",
        ),
    ]);
    for broken in ["_ZTh", "_ZTh8", "_ZThx_N1A1fEv", "_ZTv0_N1A1fEv", "_ZTc"] {
        assert_eq!(demangle(broken).function, broken);
    }
}

#[test]
fn members_of_named_types() {
    check(&[(
        "_Z1fI1AENSt9enable_ifIXsrSt8is_classIT_E5valueEvE4typeES0_",
        "f<A>",
        "std::enable_if<std::is_class<A>::value, void>::type f<A>(A)",
    )]);
    assert_eq!(
        demangle("_ZSt4swapI4NodeENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS5_ESt18is_move_assignableIS5_EEE5valueEvE4typeERS5_SF_"),
        crate::Names {
            function: "std::swap<Node>".to_owned(),
            signature: "std::enable_if<std::__and_<std::__not_<std::__is_tuple_like<Node> >, \
                std::is_move_constructible<Node>, std::is_move_assignable<Node> >::value, void>::type \
                std::swap<Node>(Node&, Node&)".to_owned(),
        }
    );
}

#[test]
fn compiler_suffixes_change_nothing() {
    let name = "_ZNK1A1fEv";
    for suffix in [
        ".isra.0",
        ".part.3",
        ".constprop.1.cold",
        ".lto_priv.0",
        ".llvm.42",
    ] {
        assert_eq!(demangle(&format!("{name}{suffix}")), demangle(name));
    }
}

#[test]
fn deep_nesting_is_demangled() {
    // f(A<A<…<int>…> >), far beyond the parser's default depth.
    let depth = 60;
    let nested = (0..depth).fold("i".to_owned(), |inner, _| format!("1AI{inner}E"));
    let text = (0..depth).fold("int".to_owned(), |inner, _| {
        let space = if inner.ends_with('>') { " " } else { "" };
        format!("A<{inner}{space}>")
    });
    let names = demangle(&format!("_Z1f{nested}"));
    assert_eq!(names.function, "f");
    assert_eq!(names.signature, format!("f({text})"));
}

#[test]
fn a_name_with_exponential_output_stays_raw() {
    // Each parameter is a template of two of the previous one, so the text doubles.
    let mut raw = String::from("_Z1f1AIiiE");
    for last in 0..60 {
        // Substitutions are numbered in base 36 from S_, S0_, on.
        let reference = match last {
            0 => "S0_".to_owned(),
            n => format!("S{}_", base36(n)),
        };
        raw.push_str(&format!("S_I{reference}{reference}E"));
    }
    assert_eq!(demangle(&raw).function, raw);
}

fn base36(mut number: usize) -> String {
    let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut text = Vec::new();
    loop {
        text.insert(0, digits[number % 36]);
        number /= 36;
        if number == 0 {
            return String::from_utf8(text).unwrap_or_default();
        }
    }
}

#[test]
fn demangling_hostile_names_ends() {
    for part in [
        "N", "I", "P", "T_", "S_", "X", "Z", "dt", "sr", "srSt", "Ul", "J", "D", "L",
    ] {
        let raw = format!("_Z{}", part.repeat(30_000));
        assert!(demangle(&raw).function == raw, "{part}");
    }
    // This is a valid function with many parameters.
    assert_eq!(
        demangle(&format!("_Z{}", "1A".repeat(30_000))).function,
        "A"
    );
}
