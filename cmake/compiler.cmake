# What every target of ours is compiled with. -march=native is never used: kernels choose at run time.
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
    message(FATAL_ERROR "GCC ${CMAKE_CXX_COMPILER_VERSION} is too old: kapitsa needs GCC 12 or clang 19 (C++23)")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
    message(FATAL_ERROR "clang ${CMAKE_CXX_COMPILER_VERSION} is too old: kapitsa needs clang 19 or GCC 12 (C++23)")
endif()

add_library(kapitsa_options INTERFACE)
target_include_directories(kapitsa_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
target_compile_options(kapitsa_options INTERFACE -Wall -Wextra -Wshadow
    -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports uses of uninitialised and freed memory, and overlaps, inside the standard library that are not there.
    target_compile_options(kapitsa_options INTERFACE -Wno-maybe-uninitialized -Wno-uninitialized
        -Wno-dangling-pointer -Wno-restrict)
endif()
if(KAPITSA_WERROR)
    target_compile_options(kapitsa_options INTERFACE -Werror)
endif()

if(KAPITSA_SANITIZE)
    add_compile_options(-fsanitize=${KAPITSA_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${KAPITSA_SANITIZE})
    if(KAPITSA_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
endif()
if(KAPITSA_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)  # the libraries tell the fuzzer which branches an input took
endif()
