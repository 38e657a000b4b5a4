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
    list(REMOVE_DUPLICATES libs)

    set(target forebay_python_embed_${v})
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE
        ${Python3_INCLUDE_DIRS})
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
        target_link_libraries(${target} INTERFACE
            -Wl,--whole-archive ${static_library} -Wl,--no-whole-archive
            ${libs} m dl util)
    else()
        message(FATAL_ERROR "${executable}: no static library "
            "${static_library}; use -DFOREBAY_PYTHON_LINK=shared")
    endif()
    set(FOREBAY_PY_VERSION ${v} PARENT_SCOPE)
endfunction()
