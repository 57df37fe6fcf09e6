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

// type: Square
CASE void case_square_as_shape() { Shape *s = new Square(); use(s); }

// type: SameA
CASE void case_same_code_a() { use(new SameA(one)); }

// type: Copied
CASE void case_copied() { static Copied from; use(new Copied(from)); }

// type: Circle
CASE void case_circle_as_shape() { Shape *s = new Circle; use(s); }

// type: Nested::Inner
CASE void case_array_of_points() { use(new Nested::Inner[3 + one]); }

// type: Diamond
CASE void case_virtual_bases() { Left *r = new Diamond; use(r); }

// type: Apart
CASE void case_factory_template() { use(create<Apart>(one)); }

// type: Either
CASE void case_union_ctor() { use(new Either(one)); }

// type: Outer
CASE void case_wrapper_of_member() { use(new Outer(one)); }

// type: Owner@8|int@32
CASE void case_owner_and_inner() { use(new Owner(one)); }

// type: Slot@16|^std::_Sp_counted_ptr<Slot*@24
CASE void case_shared_from_slot() { std::shared_ptr<Slot> s(new Slot(nullptr, one)); use(s.get()); }

// type: Wrapper
CASE void case_wrapper_of_temporary() { use(new Wrapper(std::string("short"))); }

// type: long
CASE void case_long_value() { long *p = new long(one); use(p); }

// type: Point
CASE void case_raw_then_placed() { void *p = ::operator new(sizeof(Point)); use(new (p) Point(one, 2)); }

// type: Apart
CASE void case_apart_ctor() { use(new Apart(one)); }

// type: ^Closure<
CASE void case_closure_task() { int n = one; long m = n; Task *t = new Closure([n, m] { use(&n); use(&m); }); use(t); }

// type: Plain
CASE void case_plain_of_call() { use(new Plain(plain_of(one))); }

// type: Moved
CASE void case_moved_implicit() { static Moved from; use(new Moved(std::move(from))); }

// type: Made
CASE void case_nothrow() { use(new (std::nothrow) Made(one)); }

// type: Plain
CASE void case_plain_variable() { Plain *p = new Plain; p->x = one; use(p); }

// type: Shape
CASE void case_shape_itself() { use(new Shape); }

// type: Linked
CASE void case_linked_nested_new() { use(new Linked(new Linked(nullptr, one), 2)); }

// type: ANY
CASE void case_raw_bytes() { void *p = ::operator new(24 * one); use(p); }

// type: Slot@16|Circle@16
CASE void case_slot_of_new() { use(new Slot(new Circle, one)); }

// type: Point
CASE void case_unique_reset() { std::unique_ptr<Point> p; p.reset(new Point(1, one)); use(p.get()); }

// type: Counted
CASE void case_array_with_cookie() { use(new Counted[2 + one]); }

// type: Inheriting
CASE void case_inheriting_ctor() { use(new Inheriting(one)); }

// type: Made
CASE void case_made_in_loop() { for (int i = 0; i < 1 + one; i++) use(new Made(i)); }

// type: Nested
CASE void case_implicit_nested() { use(new Nested()); }

// type: std::pair<int, double>
CASE void case_new_pair() { use(new std::pair<int, double>(one, 2.0)); }

// type: SameB
CASE void case_same_code_b() { use(new SameB(one)); }

// type: std::optional<long>
CASE void case_new_optional() { use(new std::optional<long>(one)); }

int main() {
    for (int i = 0; i < 3; i++) {
        case_square_as_shape();
        case_same_code_a();
        case_copied();
        case_circle_as_shape();
        case_array_of_points();
        case_virtual_bases();
        case_factory_template();
        case_union_ctor();
        case_wrapper_of_member();
        case_owner_and_inner();
        case_shared_from_slot();
        case_wrapper_of_temporary();
        case_long_value();
        case_raw_then_placed();
        case_apart_ctor();
        case_closure_task();
        case_plain_of_call();
        case_moved_implicit();
        case_nothrow();
        case_plain_variable();
        case_shape_itself();
        case_linked_nested_new();
        case_raw_bytes();
        case_slot_of_new();
        case_unique_reset();
        case_array_with_cookie();
        case_inheriting_ctor();
        case_made_in_loop();
        case_implicit_nested();
        case_new_pair();
        case_same_code_b();
        case_new_optional();
    }
}
