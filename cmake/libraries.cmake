# Libraries from the system's package manager. Nothing is vendored, nothing is downloaded.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog REQUIRED)
if(POLICY CMP0167)
    cmake_policy(SET CMP0167 NEW)  # Boost's own configuration file, which newer CMake prefers
endif()
find_package(Boost 1.74 REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET GLOBAL libpcre2-8)
add_library(PCRE2::PCRE2 ALIAS PkgConfig::PCRE2)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET GLOBAL libutf8proc)
add_library(utf8proc::utf8proc ALIAS PkgConfig::UTF8PROC)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET GLOBAL libhwy)
add_library(hwy::hwy ALIAS PkgConfig::HWY)
# macOS has libedit without a pkg-config file.
pkg_check_modules(LIBEDIT IMPORTED_TARGET GLOBAL libedit)
if(LIBEDIT_FOUND)
    add_library(libedit::libedit ALIAS PkgConfig::LIBEDIT)
else()
    find_library(LIBEDIT_LIBRARY edit REQUIRED)
    find_path(LIBEDIT_INCLUDE_DIR histedit.h REQUIRED)
    add_library(libedit::libedit UNKNOWN IMPORTED)
    set_target_properties(libedit::libedit PROPERTIES
        IMPORTED_LOCATION ${LIBEDIT_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LIBEDIT_INCLUDE_DIR})
endif()

# The instruction sets that the native kernels are compiled for, beside the processor's least: AVX2 and AVX-512 on
# x86-64, NEON on Arm. The others that Highway knows would cost compile time and win little.
set(KAPITSA_NO_TARGETS "HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL")
if(HWY_VERSION VERSION_GREATER_EQUAL 1.0.4)
    string(APPEND KAPITSA_NO_TARGETS "|HWY_AVX3_ZEN4")
endif()
if(HWY_VERSION VERSION_GREATER_EQUAL 1.0.6)
    string(APPEND KAPITSA_NO_TARGETS "|HWY_AVX3_SPR")
endif()
