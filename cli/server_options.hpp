#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "config/result.hpp"
#include "transport/tls_stream.hpp"

namespace rondo::cli {

/// The options that say which server is asked, and how it is reached.
struct ServerOptions {
    std::string url;
    std::string model_name;    ///< "" takes the first that the server lists
    std::string api_key_file;  ///< "" takes OPENAI_API_KEY
    std::string ca_file;       ///< "" takes the system's certificates
    double timeout_s = 600.0;  ///< of one request

    /// Adds all of them but --url, whose meaning and default are the command's.
    void add_all(CLI::App& app, const std::string& model_flag);

    /// From the file, which nobody else may read, or from the environment; "" where there is none. A key is never an
    /// argument, for every process list would show it.
    Result<std::string> key() const;
    /// Null for http.
    Result<std::shared_ptr<const TlsTrust>> trust() const;
};

}  // namespace rondo::cli
