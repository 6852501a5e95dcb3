# Compiler, warnings, sanitizers, ccache. Everything of ours links ranvier_flags.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers need this sloppiness to be cached at all (ccache manual, "Precompiled headers").
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# -O2: the engine waits for disks and networks; -O3 would only make the build longer.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

set(RANVIER_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")

add_library(ranvier_flags INTERFACE)
target_include_directories(ranvier_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(ranvier_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
                                               -Werror)
# When it inlines std::string and std::optional of one, g++ 12 sees overlaps, overflows and reads that aren't there (GCC
# bugs 105651, 105562, 105329); clang and the sanitizers watch for the real ones.
target_compile_options(ranvier_flags INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow>)
# For the precompiled header to be cached by ccache.
target_compile_options(ranvier_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
target_link_libraries(ranvier_flags INTERFACE Threads::Threads)
if(RANVIER_SANITIZE STREQUAL "address")
  # CAF binds null references in init_fun_factory.hpp (LIBRARIES section 1), so that one check is off.
  set(sanitizer -fsanitize=address,undefined -fno-sanitize=null -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
elseif(RANVIER_SANITIZE STREQUAL "thread")
  set(sanitizer -fsanitize=thread)
endif()
target_compile_options(ranvier_flags INTERFACE ${sanitizer})
target_link_options(ranvier_flags INTERFACE ${sanitizer})

# Debug programs are large; where mold is installed it links them in a tenth of the time.
find_program(MOLD mold)
if(MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_options(ranvier_flags INTERFACE -fuse-ld=mold)
endif()
