// Blocks whose types are known, for `block_types.rs`. Above each function that allocates stands the
// type of its blocks; of several sizes, `type@size`, separated by `|`; `^` before the start of a
// type. `tuned` has the cases that the rules were made with, `held` those that were set aside.
#include <any>
#include <cstdlib>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#define CASE __attribute__((noinline))

struct Pod { int x, y, z; };
struct Base { virtual ~Base() {} int a = 1; };
struct Derived : Base { long b[4] = {1, 2, 3, 4}; };
struct Made { int v; char pad[28]; explicit Made(int x) : v(x) {} };
struct Owner { int *inner; explicit Owner(int n) : inner(new int[8]()) { inner[0] = n; } };
struct Holder { std::string text; std::vector<Pod> pods; };
template <class T, class U> struct Pair { T t; U u; };
namespace deep { namespace er { struct Node { Node *next; double d; }; } }
enum class Colour : long { red, blue };

static const void *volatile sink;
static void use(const void *p) { sink = p; }
static volatile int one = 1;

// type: short
CASE void case_vector_resize() { std::vector<short> v; v.resize(500 + one); use(v.data()); }

// type: BOXED
CASE void case_function_big() { Pod p{1,2,one}; Pod q = p; Pod r = q; std::function<int()> f = [p, q, r] { return p.x + q.y + r.z; }; use(&f); }

// type: Pod
CASE void case_make_unique_pod() { auto u = std::make_unique<Pod>(); use(u.get()); }

// type: Made
CASE void case_make_unique() { auto u = std::make_unique<Made>(one); use(u.get()); }

// type: Made
CASE void case_new_made() { use(new Made(one)); }

// type: Colour
CASE void case_vector_enum() { std::vector<Colour> v(30 + one); use(v.data()); }

// type: Pod
CASE void case_make_unique_array() { auto u = std::make_unique<Pod[]>(5 + one); use(u.get()); }

// type: Pod*@64|Pod@504
CASE void case_deque_map() { std::deque<Pod> d; d.push_back(Pod{}); use(&d); }

// type: Made@32|^std::_Sp_counted_ptr<Made*@24
CASE void case_shared_from_new() { std::shared_ptr<Made> s(new Made(one)); use(s.get()); }

// type: void
CASE void case_plain_malloc() { use(std::malloc(50 + one)); }

// type: char
CASE void case_string_reserve() { std::string s; s.reserve(300 + one); use(s.data()); }

// type: char
CASE void case_string_append() { std::string s; s.append(200 + one, 'y'); use(s.data()); }

// type: Derived
CASE void case_make_unique_derived() { std::unique_ptr<Base> u = std::make_unique<Derived>(); use(u.get()); }

// type: Pod
CASE void case_vector_reserve() { std::vector<Pod> v; v.reserve(10 + one); use(v.data()); }

// type: std::_Rb_tree_node<std::pair<int const, std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>>>
CASE void case_map_of_string() { std::map<int, std::string> m; m[int(one)]; use(&m); }

// type: std::_Fwd_list_node<double>
CASE void case_forward_list_push() { std::forward_list<double> l; l.push_front(one); use(&l); }

// type: Pair<int, double>
CASE void case_new_template() { use(new Pair<int, double>()); }

// type: char16_t
CASE void case_string_u16() { std::u16string s(100 + one, u'x'); use(s.data()); }

// type: unsigned long
CASE void case_vector_bool() { std::vector<bool> v(1000 + one); use(&v); }

// type: ^std::_Sp_counted_ptr_inplace<Made,
CASE void case_make_shared() { auto u = std::make_shared<Made>(one); use(u.get()); }

// type: Derived
CASE void case_new_derived() { Base *b = new Derived; use(b); }

// type: Pod
CASE void case_new_pod() { use(new Pod{1, 2, one}); }

// type: char
CASE void case_string_long() { std::string s(100 + one, 'x'); use(s.data()); }

int main() {
    for (int i = 0; i < 3; i++) {
        case_vector_resize();
        case_function_big();
        case_make_unique_pod();
        case_make_unique();
        case_new_made();
        case_vector_enum();
        case_make_unique_array();
        case_deque_map();
        case_shared_from_new();
        case_plain_malloc();
        case_string_reserve();
        case_string_append();
        case_make_unique_derived();
        case_vector_reserve();
        case_map_of_string();
        case_forward_list_push();
        case_new_template();
        case_string_u16();
        case_vector_bool();
        case_make_shared();
        case_new_derived();
        case_new_pod();
        case_string_long();
    }
}
