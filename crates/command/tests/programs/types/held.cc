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

// type: char
CASE void case_new_chars() { use(new char[100 + one]); }

// type: Pair<int, long>
CASE void case_vector_pair() { std::vector<Pair<int, long>> v(20 + one); use(v.data()); }

// type: Pod
CASE void case_new_array() { use(new Pod[6 + one]); }

// type: char
CASE void case_string_plus() { static std::string from(90, 'q'); std::string s = from + "tail"; use(s.data()); }

// type: Owner@8|int@32
CASE void case_make_unique_owner() { auto u = std::make_unique<Owner>(one); use(u.get()); }

// type: std::_Rb_tree_node<std::pair<short const, double>>
CASE void case_multimap_insert() { std::multimap<short, double> m; m.insert({short(one), 2.0}); use(&m); }

// type: Base*
CASE void case_vector_pointer() { std::vector<Base *> v(30 + one); use(v.data()); }

// type: std::_List_node<Pod>
CASE void case_list_push() { std::list<Pod> l; l.push_back(Pod{}); use(&l); }

// type: std::vector<int, std::allocator<int>>
CASE void case_vector_of_vectors_outer() { std::vector<std::vector<int>> v; v.reserve(7 + one); use(v.data()); }

// type: long
CASE void case_allocator_direct() { std::allocator<long> a; use(a.allocate(9 + one)); }

// type: Owner@8|int@32
CASE void case_vector_of_owner() { std::vector<Owner> v; v.emplace_back(one); use(v.data()); }

// type: double
CASE void case_vector_fill() { std::vector<double> v(100 + one, 2.0); use(v.data()); }

// type: ^std::_Sp_counted_ptr_inplace<Derived,
CASE void case_make_shared_derived() { std::shared_ptr<Base> u = std::make_shared<Derived>(); use(u.get()); }

// type: std::_Rb_tree_node<std::pair<int const, Pod>>
CASE void case_map_insert() { std::map<int, Pod> m; m[int(one)] = Pod{}; use(&m); }

// type: std::__detail::_Hash_node<std::pair<int const, Pod>, false>@24|std::__detail::_Hash_node_base*
CASE void case_unordered_map_node() { static std::unordered_map<int, Pod> m; static bool first = (m.reserve(100), true); m[int(one)] = Pod{}; use(&m); (void)first; }

// type: Pod
CASE void case_vector_copy() { static std::vector<Pod> from(3); std::vector<Pod> v(from); use(v.data()); }

// type: char
CASE void case_string_copy() { static std::string from(90, 'q'); std::string s(from); use(s.data()); }

// type: std::_Rb_tree_node<long>
CASE void case_set_insert() { std::set<long> m; m.insert(one); use(&m); }

// type: wchar_t
CASE void case_string_wide() { std::wstring s(100 + one, L'x'); use(s.data()); }

// type: deep::er::Node
CASE void case_vector_push() { std::vector<deep::er::Node> v; v.push_back({nullptr, 1.0 * one}); use(v.data()); }

// type: int
CASE void case_new_int() { use(new int(one)); }

// type: Holder
CASE void case_new_holder() { use(new Holder()); }

// type: ^std::_Sp_counted_ptr_inplace<Pod,
CASE void case_allocate_shared() { auto u = std::allocate_shared<Pod>(std::allocator<Pod>()); use(u.get()); }

int main() {
    for (int i = 0; i < 3; i++) {
        case_new_chars();
        case_vector_pair();
        case_new_array();
        case_string_plus();
        case_make_unique_owner();
        case_multimap_insert();
        case_vector_pointer();
        case_list_push();
        case_vector_of_vectors_outer();
        case_allocator_direct();
        case_vector_of_owner();
        case_vector_fill();
        case_make_shared_derived();
        case_map_insert();
        case_unordered_map_node();
        case_vector_copy();
        case_string_copy();
        case_set_insert();
        case_string_wide();
        case_vector_push();
        case_new_int();
        case_new_holder();
        case_allocate_shared();
    }
}
