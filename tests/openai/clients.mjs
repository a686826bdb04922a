// Four clients behind one face: each function asks as that client's own documentation does, and returns what it gave.
//   chat(messages)            -> {text, usage: {prompt, completion}}
//   stream(messages)          -> {text, usage, chunks}
//   logprobs(messages)        -> [{logprob, top: [logprob, …]}, …]
//   complete(prompt, most)    -> {text, usage}
//   abort(messages)           returns when it left a stream of which one chunk had come
//   tools(messages)           rejects with the client's error
// Messages are {role, content}. `base` ends in a slash.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const model = 'demo_model';
const tool = { type: 'function', function: { name: 'clock', parameters: { type: 'object', properties: {} } } };
const long = { max_tokens: 3000, ignore_eos: true };  // what an aborted stream would have become
const usageOf = (usage) => usage && { prompt: usage.prompt_tokens, completion: usage.completion_tokens };
const logprobsOf = (choice) =>
    choice.logprobs.content.map((token) => ({ logprob: token.logprob, top: token.top_logprobs.map((t) => t.logprob) }));

export function openai(base, apiKey) {
    const { OpenAI } = require('openai');
    const client = new OpenAI({ apiKey, baseURL: base + 'v1', maxRetries: 0 });
    const ask = (messages, more = {}) => client.chat.completions.create({ model, messages, temperature: 0, ...more });
    return {
        async chat(messages) {
            const reply = await ask(messages);
            return { text: reply.choices[0].message.content, usage: usageOf(reply.usage) };
        },
        async stream(messages) {
            let text = '', usage = null, chunks = 0;
            for await (const chunk of await ask(messages, { stream: true, stream_options: { include_usage: true } })) {
                ++chunks;
                text += chunk.choices[0]?.delta?.content ?? '';
                usage = usageOf(chunk.usage) ?? usage;
            }
            return { text, usage, chunks };
        },
        logprobs: async (messages) => logprobsOf((await ask(messages, { logprobs: true, top_logprobs: 3 })).choices[0]),
        async complete(prompt, max_tokens) {
            const reply = await client.completions.create({ model, prompt, max_tokens, temperature: 0 });
            return { text: reply.choices[0].text, usage: usageOf(reply.usage) };
        },
        async abort(messages) {
            for await (const chunk of await ask(messages, { stream: true, ...long })) {
                if (chunk.choices[0]?.delta?.content) break;  // leaving the loop aborts
            }
        },
        tools: (messages) => ask(messages, { tools: [tool] }),
    };
}

export function vercelAi(base, apiKey) {
    const { generateText, jsonSchema, streamText, tool: makeTool } = require('ai');
    const { createOpenAICompatible } = require('@ai-sdk/openai-compatible');
    const provider = createOpenAICompatible({ name: 'rondo', baseURL: base + 'v1', apiKey, includeUsage: true });
    const common = { temperature: 0, maxRetries: 0 };
    const ask = { ...common, model: provider(model) };
    const usageOf = (usage) => ({ prompt: usage.inputTokens, completion: usage.outputTokens });
    return {
        async chat(messages) {
            const { text, usage } = await generateText({ ...ask, messages });
            return { text, usage: usageOf(usage) };
        },
        async stream(messages) {
            const result = streamText({ ...ask, messages });
            let text = '', chunks = 0;
            for await (const piece of result.textStream) {
                ++chunks;
                text += piece;
            }
            return { text, usage: usageOf(await result.usage), chunks };
        },
        async logprobs(messages) {
            // It has no word for them: fields of the provider go through, and the body is handed over as it came.
            const providerOptions = { rondo: { logprobs: true, top_logprobs: 3 } };
            return logprobsOf((await generateText({ ...ask, messages, providerOptions })).response.body.choices[0]);
        },
        async complete(prompt, maxOutputTokens) {
            const model = provider.completionModel('demo_model');
            const { text, usage } = await generateText({ ...common, model, prompt, maxOutputTokens });
            return { text, usage: usageOf(usage) };
        },
        async abort(messages) {
            const abort = new AbortController();
            const result = streamText({
                ...ask, messages, abortSignal: abort.signal, maxOutputTokens: long.max_tokens,
                providerOptions: { rondo: { ignore_eos: true } },
            });
            for await (const part of result.fullStream) {
                if (part.type === 'text-delta') abort.abort();
            }
        },
        tools: (messages) =>
            generateText({
                ...ask, messages,
                tools: { clock: makeTool({ inputSchema: jsonSchema(tool.function.parameters), execute: () => 'noon' }) },
            }),
    };
}

export function langchain(base, apiKey) {
    const { ChatOpenAI, OpenAI } = require('@langchain/openai');
    const common = { model, apiKey, temperature: 0, maxRetries: 0, configuration: { baseURL: base + 'v1' } };
    const client = new ChatOpenAI(common);
    const usageOf = (usage) => usage && { prompt: usage.input_tokens, completion: usage.output_tokens };
    return {
        async chat(messages) {
            const reply = await client.invoke(messages);
            return { text: reply.content, usage: usageOf(reply.usage_metadata) };
        },
        async stream(messages) {
            let text = '', usage = null, chunks = 0;
            for await (const chunk of await client.stream(messages)) {
                ++chunks;
                text += chunk.content;
                usage = usageOf(chunk.usage_metadata) ?? usage;
            }
            return { text, usage, chunks };
        },
        async logprobs(messages) {
            const asking = new ChatOpenAI({ ...common, logprobs: true, topLogprobs: 3 });
            return logprobsOf((await asking.invoke(messages)).response_metadata);
        },
        async complete(prompt, maxTokens) {
            const { generations, llmOutput } = await new OpenAI({ ...common, maxTokens }).generate([prompt]);
            const { promptTokens, completionTokens } = llmOutput.tokenUsage;
            return { text: generations[0][0].text, usage: { prompt: promptTokens, completion: completionTokens } };
        },
        async abort(messages) {
            const abort = new AbortController();
            const asking = new ChatOpenAI({ ...common, maxTokens: long.max_tokens, modelKwargs: { ignore_eos: true } });
            try {
                for await (const chunk of await asking.stream(messages, { signal: abort.signal })) {
                    if (chunk.content) abort.abort();
                }
            } catch (error) {
                if (!abort.signal.aborted) throw error;
            }
        },
        tools: (messages) => client.bindTools([tool]).invoke(messages),
    };
}

export function llamaindex(base, apiKey) {
    const { OpenAI } = require('@llamaindex/openai');
    const common = { model, apiKey, baseURL: base + 'v1', temperature: 0, maxRetries: 0 };
    const make = (additionalChatOptions = {}) => new OpenAI({ ...common, additionalChatOptions });
    const ask = async (messages, more) => (await make(more).chat({ messages })).raw;
    return {
        async chat(messages) {
            const reply = await make().chat({ messages });
            return { text: reply.message.content, usage: usageOf(reply.raw.usage) };
        },
        async stream(messages) {
            let text = '', usage = null, chunks = 0;
            const asking = make({ stream_options: { include_usage: true } });
            for await (const chunk of await asking.chat({ messages, stream: true })) {
                ++chunks;
                text += chunk.delta;
                usage = usageOf(chunk.raw.usage) ?? usage;
            }
            return { text, usage, chunks };
        },
        logprobs: async (messages) => logprobsOf((await ask(messages, { logprobs: true, top_logprobs: 3 })).choices[0]),
        // Its complete() asks /v1/chat/completions: it knows no other.
        async complete(prompt, maxTokens) {
            const reply = await new OpenAI({ ...common, maxTokens }).complete({ prompt });
            return { text: reply.text, usage: usageOf(reply.raw.usage) };
        },
        // Leaving its loop does not reach the stream below: wrapEventCaller of @llamaindex/core forwards no return().
        async abort(messages) {
            const abort = new AbortController();
            const additionalSessionOptions = { fetchOptions: { signal: abort.signal } };
            const asking = new OpenAI({ ...common, additionalChatOptions: long, additionalSessionOptions });
            for await (const chunk of await asking.chat({ messages, stream: true })) {
                if (chunk.delta) abort.abort();
            }
        },
        tools: (messages) => ask(messages, { tools: [tool] }),
    };
}
