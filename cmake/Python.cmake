# forebay_python(EXECUTABLE): find the headers and the library of one CPython.
#
# Makes the interface target forebay_python_embed_3.x and sets
# FOREBAY_PY_VERSION to "3.x". With FOREBAY_PYTHON_LINK auto or static the
# static, optimised libpython3.x.a is linked whole and its symbols are
# exported, so that extension modules find them; the distribution's shared
# library is position-independent and costs a fifth to a third more CPU.

function(forebay_python executable)
    # FindPython3 remembers one interpreter; forget it between two calls.
    get_cmake_property(cached CACHE_VARIABLES)
    foreach(name IN LISTS cached)
        if(name MATCHES "^_?Python3_")
            unset(${name} CACHE)
        endif()
    endforeach()
    set(Python3_EXECUTABLE ${executable})
    set(Python3_FIND_VIRTUALENV STANDARD)
    find_package(Python3 REQUIRED COMPONENTS Interpreter Development.Embed)
    set(v ${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR})
    if(Python3_VERSION VERSION_LESS 3.9 OR
            NOT Python3_VERSION VERSION_LESS 3.15)
        message(FATAL_ERROR
            "${executable} is Python ${Python3_VERSION}; 3.9 to 3.14 work")
    endif()

    execute_process(
        COMMAND ${executable} -c "import sysconfig as s
g = s.get_config_var
print(g('LIBPL') + '/' + g('LIBRARY'))
print(' '.join(' '.join([g(k) or '' for k in ('LIBS', 'SYSLIBS', 'MODLIBS')]).split()))"
        OUTPUT_VARIABLE answer COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX REPLACE "\n.*" "" static_library "${answer}")
    string(REGEX REPLACE "^[^\n]*\n([^\n]*)\n.*" "\\1" libs "${answer}")
    separate_arguments(libs UNIX_COMMAND "${libs}")
    # From 3.12 on archives of CPython's own build folder are named as well;
    # what is in them is in the library.
    list(FILTER libs INCLUDE REGEX "^-[lLW]")
    list(REMOVE_DUPLICATES libs)

    set(target forebay_python_embed_${v})
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE
        ${Python3_INCLUDE_DIRS})
    # Debian's headers of a debug build are links, beside a pyconfig.h of their
    # own, which gcc passes by when it follows them. (Not elsewhere: clang-tidy
    # reads gcc's commands, and does not know the option.)
    if(Python3_INCLUDE_DIRS MATCHES "python3\\.[0-9]+d")
        target_compile_options(${target} INTERFACE
            $<$<C_COMPILER_ID:GNU>:-fno-canonical-system-headers>)
    endif()
    if(FOREBAY_PYTHON_LINK STREQUAL "shared" OR
            (FOREBAY_PYTHON_LINK STREQUAL "auto" AND
             NOT EXISTS ${static_library}))
        message(STATUS "forebay-worker-${v}: ${Python3_LIBRARIES} (shared)")
        target_link_libraries(${target} INTERFACE ${Python3_LIBRARIES} m)
        foreach(dir IN LISTS Python3_LIBRARY_DIRS)
            if(NOT dir MATCHES "^/usr/lib")
                target_link_options(${target} INTERFACE -Wl,-rpath,${dir})
            endif()
        endforeach()
    elseif(EXISTS ${static_library})
        message(STATUS "forebay-worker-${v}: ${static_library} (static)")
        forebay_complete(static_library ${target} ${v})
        target_link_libraries(${target} INTERFACE
            -Wl,--whole-archive ${static_library} -Wl,--no-whole-archive
            ${libs} m dl util)
    else()
        message(FATAL_ERROR "${executable}: no static library "
            "${static_library}; use -DFOREBAY_PYTHON_LINK=shared")
    endif()
    set(FOREBAY_PY_VERSION ${v} PARENT_SCOPE)
endfunction()

# forebay_complete(LIBRARY_VARIABLE TARGET VERSION): Debian 13's libpython3.13.a
# has the module _sha2 without the code that it calls. Such an object is left
# out of a copy, and python/absent/ says "not there" in its place.
function(forebay_complete library target v)
    execute_process(COMMAND ${CMAKE_NM} ${${library}}
        OUTPUT_VARIABLE symbols ERROR_QUIET)
    if(NOT symbols MATCHES " U [a-z_]*Hacl_Hash_SHA2_malloc_512\n" OR
            symbols MATCHES " T [a-z_]*Hacl_Hash_SHA2_malloc_512\n")
        return()
    endif()
    message(STATUS "forebay-worker-${v}: without _sha2, which is incomplete "
        "in that library")
    set(copy ${CMAKE_BINARY_DIR}/libpython${v}-complete.a)
    execute_process(COMMAND ${CMAKE_COMMAND} -E copy ${${library}} ${copy}
        COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${CMAKE_AR} d ${copy} sha2module.o
        COMMAND_ERROR_IS_FATAL ANY)
    target_sources(${target} INTERFACE
        ${PROJECT_SOURCE_DIR}/python/absent/sha2.c)
    set(${library} ${copy} PARENT_SCOPE)
endfunction()
