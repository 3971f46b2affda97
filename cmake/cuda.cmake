# The CUDA backend is built where nvcc is: kernels_*.cu become one fatbin each (machine code for every architecture of
# the list, and PTX of the first for newer ones), which cuda_backend.cpp takes in. The driver is found when the program runs.
find_program(KAPITSA_NVCC nvcc HINTS /usr/local/cuda/bin)
option(KAPITSA_CUDA "Build the CUDA backend where nvcc is found" ON)
set(KAPITSA_CUDA_ARCHITECTURES "80;90" CACHE STRING "Compute capabilities to compile for")

# kapitsa_cuda(TARGET FOLDER): adds the backend to the library, or its absence.
function(kapitsa_cuda target folder)
    if(NOT (KAPITSA_CUDA AND KAPITSA_NVCC))
        file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
        list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/${folder}/no_cuda.cpp)
        get_target_property(all ${target} SOURCES)
        foreach(source ${sources})
            file(RELATIVE_PATH source ${PROJECT_SOURCE_DIR} ${source})
            list(FILTER all EXCLUDE REGEX "${source}$")
        endforeach()
        set_target_properties(${target} PROPERTIES SOURCES "${all}")
        return()
    endif()
    get_target_property(all ${target} SOURCES)
    list(FILTER all EXCLUDE REGEX "no_cuda.cpp$")
    set_target_properties(${target} PROPERTIES SOURCES "${all}")

    set(code "")
    foreach(number ${KAPITSA_CUDA_ARCHITECTURES})
        list(APPEND code -gencode arch=compute_${number},code=sm_${number})
    endforeach()
    list(GET KAPITSA_CUDA_ARCHITECTURES 0 oldest)
    list(APPEND code -gencode arch=compute_${oldest},code=compute_${oldest})
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/kernels_*.cu)
    set(rows "")
    set(fatbins "")
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        set(fatbin ${PROJECT_BINARY_DIR}/cuda/${name}.fatbin)
        add_custom_command(OUTPUT ${fatbin}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/cuda
            COMMAND ${KAPITSA_NVCC} --threads 0 --compress-mode=size -std=c++17 -fmad=false -I${PROJECT_SOURCE_DIR}/src ${code} --fatbin
                -MD -MF ${fatbin}.d -MT ${fatbin} -o ${fatbin} ${source}
            DEPENDS ${source} DEPFILE ${fatbin}.d
            COMMENT "nvcc ${name}.cu" VERBATIM)
        string(APPEND rows "CUDA_MODULE(${name}, \"${fatbin}\")\n")
        list(APPEND fatbins ${fatbin})
    endforeach()
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/cuda_modules.inc CONTENT "${rows}")
    get_filename_component(cuda ${KAPITSA_NVCC} REALPATH)
    get_filename_component(cuda ${cuda} DIRECTORY)
    target_include_directories(${target} SYSTEM PRIVATE ${cuda}/../include)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${folder}/cuda_backend.cpp PROPERTIES OBJECT_DEPENDS "${fatbins}")
endfunction()
