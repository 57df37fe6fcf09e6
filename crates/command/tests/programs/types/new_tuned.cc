// Blocks of `new` whose types are known, for `block_types.rs`. Above each function that allocates
// stands the type of its blocks; of several sizes, `type@size`, separated by `|`; `^` before the
// start of a type. `new_tuned` has the cases that the rules were made with, `new_held` those that
// were set aside. Many cases have a second type of the same size near by.
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#define CASE __attribute__((noinline))
#define APART __attribute__((noinline))

static const void *volatile sink;
static void use(const void *p) { sink = p; }
static volatile int one = 1;

struct Plain { int x, y, z; };
struct Point { double x, y; Point(double a, double b) : x(a), y(b) {} };
struct Vector2 { double x, y; Vector2(double a, double b) : x(a), y(b) {} };
struct Apart { long a[5]; APART explicit Apart(long n); };
Apart::Apart(long n) { for (long &it : a) it = n; }
struct Made { int v; char pad[28]; explicit Made(int x) : v(x) {} };
struct Wrapper { std::string text; explicit Wrapper(std::string t) : text(std::move(t)) {} };
struct Bare { std::string text; };
struct Shape { virtual ~Shape() {} virtual double area() const { return 0; } long id = one; };
struct Circle : Shape { double area() const override { return 3; } };
struct Square : Shape { double area() const override { return 1; } double side = one; };
struct Left { virtual ~Left() {} long l = one; };
struct Right { virtual ~Right() {} long r = one; };
struct Both : Left, Right { long b = one; };
struct Diamond : virtual Left, virtual Right { long d = one; };
struct Owner { int *inner; explicit Owner(int n) : inner(new int[8]()) { inner[0] = n; } };
struct Linked { Linked *next; long value; Linked(Linked *n, long v) : next(n), value(v) {} };
struct Delegating { long a, b, c; Delegating(long x, long y) : a(x), b(y), c(0) {} explicit Delegating(long x) : Delegating(x, one) {} };
struct Inheriting : Made { using Made::Made; };
struct Copied { long v[6]; Copied() { for (long &it : v) it = one; } Copied(const Copied &o) { std::memcpy(v, o.v, sizeof v); } };
struct Moved { std::vector<int> a; std::string b; };
struct Counted { long n; long pad[2]; Counted() : n(one) {} ~Counted() { sink = this; } };
struct Throwing { long n[7]; explicit Throwing(int x) { if (x < 0) throw x; for (long &it : n) it = x; } };
struct alignas(64) Aligned { long n; Aligned() : n(one) {} };
struct Own { long n[9]; Own() { n[0] = one; } static void *operator new(std::size_t size) { return ::operator new(size); } };
template <class T> struct Box { T value; long tag; explicit Box(T v) : value(v), tag(one) {} };
template <class T, int N> struct Grid { T cells[N]; Grid() { for (T &it : cells) it = T(one); } };
template <class D> struct Crtp { long base; Crtp() : base(one) {} D *clone() { return new D(static_cast<D &>(*this)); } };
struct Cloned : Crtp<Cloned> { long more = one; Cloned() {} Cloned(const Cloned &o) : Crtp<Cloned>(o), more(o.more) {} };
struct Task { virtual void run() = 0; virtual ~Task() {} };
template <class F> struct Closure : Task { F f; explicit Closure(F g) : f(g) {} void run() override { f(); } };
union Either { long l; double d; explicit Either(long x) : l(x) {} };
struct Empty { Empty() { sink = this; } };
struct First { std::vector<int> items; First() { items.reserve(9); } };
struct Nested { struct Inner { long a, b; Inner() : a(one), b(2) {} }; Inner i; };
namespace { struct Hidden { long h[4]; Hidden() { h[0] = one; } }; }
namespace deep { namespace er { struct Node { Node *next; double d; explicit Node(double x) : next(nullptr), d(x) {} }; } }
struct SameA { long a, b, c; APART explicit SameA(long n); };
struct SameB { long a, b, c; APART explicit SameB(long n); };
SameA::SameA(long n) { a = n; b = n + 1; c = n * 3; }
SameB::SameB(long n) { a = n; b = n + 1; c = n * 3; }
struct Config { long numbers[20]; std::string name; Config() : numbers() {} };
struct Outer { Made made; explicit Outer(int x) : made(x) {} };
struct Slot { Shape *shape; long weight; Slot(Shape *s, long w) : shape(s), weight(w) {} };
struct Deep { std::map<int, std::string> m; std::list<long> l; Deep() { m[int(one)] = "a"; } };

APART static std::string text_of(int n) { return std::string(3 + n, 'x'); }
APART static Plain plain_of(int n) { return Plain{n, n, n}; }
template <class T, class... A> static T *create(A &&...a) { return new T(std::forward<A>(a)...); }
template <class T> APART static T *stored(T *p) { use(p); return p; }
APART static Wrapper *wrapped(std::string *s) { Wrapper *w = new Wrapper(*s); delete s; return w; }

// type: Empty
CASE void case_empty_class() { use(new Empty); }

// type: std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>
CASE void case_array_of_strings() { use(new std::string[3 + one]); }

// type: SameA
CASE void case_conditional() { void *p = one > 0 ? (void *)new SameA(1) : (void *)new SameB(2); use(p); }

// type: Point
CASE void case_inline_ctor() { use(new Point(one, 2)); }

// type: std::_Rb_tree_node<std::pair<int const, Made*>>|Made@32
CASE void case_map_of_owned() { static std::map<int, Made *> m; m[int(one)] = new Made(one); use(&m); }

// type: Throwing
CASE void case_may_throw() { try { use(new Throwing(one)); } catch (int) {} }

// type: Own
CASE void case_own_operator() { use(new Own); }

// type: std::function<int()>|std::function<int ()>
CASE void case_new_function() { use(new std::function<int()>([] { return int(one); })); }

// type: Made
CASE void case_factory_inline() { use(create<Made>(one)); }

// type: First@24|int@36
CASE void case_first_member_vector() { use(new First); }

// type: char
CASE void case_characters() { char *p = new char[40 + one]; p[0] = char(one); use(p); }

// type: Config
CASE void case_value_initialised() { use(new Config()); }

// type: ^std::tuple<
CASE void case_new_tuple() { use(new std::tuple<int, long, char>(one, 2, 3)); }

// type: Deep@72|^std::_Rb_tree_node<
CASE void case_deep_members() { use(new Deep); }

// type: std::vector<int, std::allocator<int>>@24|int@28
CASE void case_new_vector() { use(new std::vector<int>(6 + one)); }

// type: Delegating
CASE void case_delegating() { use(new Delegating(one)); }

// type: Plain
CASE void case_plain_array() { Plain *p = new Plain[4 + one]; p[0].x = one; use(p); }

// type: std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>|Wrapper
CASE void case_wrapped_string() { use(wrapped(new std::string("ab"))); }

// type: (anonymous namespace)::Hidden
CASE void case_anonymous_namespace() { use(new Hidden); }

// type: Bare
CASE void case_bare_braces() { use(new Bare{text_of(one)}); }

// type: Nested::Inner
CASE void case_inner_class() { use(new Nested::Inner); }

// type: Wrapper
CASE void case_wrapper_of_call() { use(new Wrapper(text_of(one))); }

// type: deep::er::Node
CASE void case_deep_namespace() { use(new deep::er::Node(one)); }

// type: Box<float>
CASE void case_template_class() { use(new Box<float>(one)); }

// type: Aligned
CASE void case_aligned() { use(new Aligned); }

// type: Both
CASE void case_two_bases_second() { Right *r = new Both; use(r); }

// type: Cloned
CASE void case_crtp_clone() { static Cloned from; use(from.clone()); }

// type: Grid<short, 24>
CASE void case_template_values() { use(new Grid<short, 24>()); }

// type: Plain
CASE void case_stored_plain() { use(stored(new Plain{one, 2, 3})); }

// type: Made*
CASE void case_pointers() { Made **p = new Made *[5 + one]; p[0] = nullptr; use(p); }

// type: std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>
CASE void case_new_string() { use(new std::string); }

// type: Vector2
CASE void case_same_size_argument() { Point p(one, 2); Point *q = &p; use(q); use(new Vector2(q->x, Point(q->y, 1).x)); }

int main() {
    for (int i = 0; i < 3; i++) {
        case_empty_class();
        case_array_of_strings();
        case_conditional();
        case_inline_ctor();
        case_map_of_owned();
        case_may_throw();
        case_own_operator();
        case_new_function();
        case_factory_inline();
        case_first_member_vector();
        case_characters();
        case_value_initialised();
        case_new_tuple();
        case_deep_members();
        case_new_vector();
        case_delegating();
        case_plain_array();
        case_wrapped_string();
        case_anonymous_namespace();
        case_bare_braces();
        case_inner_class();
        case_wrapper_of_call();
        case_deep_namespace();
        case_template_class();
        case_aligned();
        case_two_bases_second();
        case_crtp_clone();
        case_template_values();
        case_stored_plain();
        case_pointers();
        case_new_string();
        case_same_size_argument();
    }
}
