/*
 * Goal: C++ operators new and delete, in all their forms, are the library's, and behave as the
 * standard says when memory runs out: the new-handler is called until it gives up, then
 * std::bad_alloc is thrown or, by the nothrow forms, NULL returned, even if the handler throws.
 * Method: each form by hand, counting handler calls; requests that no machine can meet.
 */
#include <cstdarg>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
extern "C" {
#include <cmocka.h>
}
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>
#include <vellum/malloc.h>

static volatile std::size_t too_much = PTRDIFF_MAX / 2;
static int calls;

static std::size_t used()
{
    struct vl_malloc_stats stats;

    vl_malloc_stats(&stats);
    return stats.used;
}

static void forms(void **)
{
    std::align_val_t wide{256};
    std::size_t before = used();
    void *p[12] = {
        ::operator new(5000),
        ::operator new[](5000),
        ::operator new(5000, std::nothrow),
        ::operator new[](5000, std::nothrow),
        ::operator new(5000, wide),
        ::operator new[](5000, wide),
        ::operator new(5000, wide, std::nothrow),
        ::operator new[](5000, wide, std::nothrow),
        ::operator new(0),
        ::operator new(5000),
        ::operator new(5000, wide),
        ::operator new[](5000),
    };

    assert_true(used() >= before + 11 * 5000); /* ours */
    for (int i = 0; i < 12; i++) {
        assert_non_null(p[i]);
        assert_true(((i < 4 || i > 7) && i != 10) || (std::uintptr_t)p[i] % 256 == 0);
        std::memset(p[i], i, malloc_usable_size(p[i]));
    }
    ::operator delete(p[0]);
    ::operator delete[](p[1]);
    ::operator delete(p[2], std::nothrow);
    ::operator delete[](p[3], std::nothrow);
    ::operator delete(p[4], wide);
    ::operator delete[](p[5], wide);
    ::operator delete(p[6], wide, std::nothrow);
    ::operator delete[](p[7], wide, std::nothrow);
    ::operator delete(p[8]);
    ::operator delete(p[9], std::size_t{5000});
    ::operator delete(p[10], std::size_t{5000}, wide);
    ::operator delete[](p[11], std::size_t{5000});
    ::operator delete(nullptr);
    assert_true(used() < before + 5000);
}

/* Does @request throw std::bad_alloc? */
template <class Request> static bool throws(Request request)
{
    try {
        void *p = request();
        (void)p;
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void no_handler(void **)
{
    std::align_val_t wide{64};

    std::set_new_handler(nullptr);
    assert_true(throws([] { return ::operator new(too_much); }));
    assert_true(throws([] { return ::operator new[](too_much); }));
    assert_true(throws([=] { return ::operator new(too_much, wide); }));
    assert_true(throws([=] { return ::operator new[](too_much, wide); }));
    assert_null(::operator new(too_much, std::nothrow));
    assert_null(::operator new[](too_much, std::nothrow));
    assert_null(::operator new(too_much, wide, std::nothrow));
    assert_null(::operator new[](too_much, wide, std::nothrow));
}

static void gives_up()
{
    if (++calls == 3) {
        std::set_new_handler(nullptr);
    }
}

static void throwing()
{
    calls++;
    throw std::bad_alloc();
}

static void handlers(void **)
{
    std::align_val_t wide{64};

    calls = 0;
    std::set_new_handler(gives_up);
    assert_true(throws([] { return ::operator new(too_much); }));
    assert_int_equal(calls, 3);
    calls = 0;
    std::set_new_handler(gives_up);
    assert_null(::operator new(too_much, std::nothrow));
    assert_int_equal(calls, 3);
    calls = 0;
    std::set_new_handler(throwing);
    assert_true(throws([] { return ::operator new(too_much); }));
    assert_int_equal(calls, 1);
    assert_null(::operator new(too_much, std::nothrow));
    assert_null(::operator new[](too_much, std::nothrow));
    assert_null(::operator new(too_much, wide, std::nothrow));
    assert_null(::operator new[](too_much, wide, std::nothrow));
    assert_int_equal(calls, 5);
    std::set_new_handler(nullptr);
}

struct alignas(64) Wide {
    char bytes[100];
};

static void containers(void **)
{
    auto work = [] {
        std::map<std::string, std::vector<Wide>> all;

        for (int i = 0; i < 2000; i++) {
            all["a rather long key " + std::to_string(i % 300)].emplace_back();
        }
        for (auto &entry : all) {
            for (auto &wide : entry.second) {
                if ((std::uintptr_t)&wide % 64 != 0) {
                    std::abort();
                }
            }
        }
        thread_local std::unique_ptr<std::string> late;
        late = std::make_unique<std::string>(1000, 'x'); /* freed while the thread ends */
    };
    std::vector<std::thread> threads;

    for (int i = 0; i < 8; i++) {
        threads.emplace_back(work);
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(no_handler),
        cmocka_unit_test(handlers),
        cmocka_unit_test(containers),
    };

    return cmocka_run_group_tests_name("malloc: operators of C++", tests, nullptr, nullptr);
}
