// Four clients behind one face: each function asks as that client's own documentation does, and returns what it gave.
//   chat(messages)            -> {text, usage: {prompt, completion}}
//   stream(messages)          -> {text, usage, chunks}
//   logprobs(messages)        -> [{logprob, top: [logprob, …]}, …]
//   complete(prompt, most)    -> {text, usage}
//   abort(messages)           returns when it left a stream of which one chunk had come
//   tools(messages)           -> {call: {name, args}, streamed: {name, args}, text}: a call, the same as a stream, and
//                                what was said behind its result; where there are no tools, the client's error
// Messages are {role, content}. `base` ends in a slash.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const model = 'demo_model';
const parameters = {
    type: 'object', properties: { zone: { enum: ['CET', 'UTC'] } }, required: ['zone'], additionalProperties: false };
const tool = { type: 'function', function: { name: 'clock', description: 'Tells the time.', parameters } };
const must_call = { type: 'function', function: { name: 'clock' } };
const noon = ({ zone }) => `noon in ${zone}`;
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
        async tools(messages) {
            const calls = [];
            const called = { name: 'clock', parameters, parse: JSON.parse,
                             function: (args) => { calls.push(args); return noon(args); } };
            const runner = client.chat.completions.runTools({
                model, messages, temperature: 0, tool_choice: must_call,
                tools: [{ type: 'function', function: called }] });
            await runner.done();
            const stream = client.chat.completions.stream({ model, messages, temperature: 0, tools: [tool],
                                                            tool_choice: must_call });
            const { function: streamed } = (await stream.finalMessage()).tool_calls[0];
            const last = await ask(runner.messages, { tools: [tool], tool_choice: 'none' });
            return { call: { name: 'clock', args: calls[0] },
                     streamed: { name: streamed.name, args: JSON.parse(streamed.arguments) },
                     text: last.choices[0].message.content };
        },
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
        async tools(messages) {
            const tools = { clock: makeTool({ description: 'Tells the time.', inputSchema: jsonSchema(parameters),
                                              execute: noon }) };
            const calling = { ...ask, messages, tools, toolChoice: { type: 'tool', toolName: 'clock' } };
            const whole = await generateText(calling);
            const streamed = (await streamText(calling).toolCalls)[0];
            const last = await generateText({
                ...calling, messages: [...messages, ...whole.response.messages], toolChoice: 'none' });
            const [call] = whole.toolCalls;
            return { call: { name: call.toolName, args: call.input },
                     streamed: { name: streamed.toolName, args: streamed.input }, text: last.text };
        },
    };
}

export function langchain(base, apiKey) {
    const { ChatOpenAI, OpenAI } = require('@langchain/openai');
    const { ToolMessage } = require('@langchain/core/messages');
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
        async tools(messages) {
            const calling = client.bindTools([tool], { tool_choice: must_call });
            const whole = await calling.invoke(messages);
            let streamed;
            for await (const chunk of await calling.stream(messages))
                streamed = streamed === undefined ? chunk : streamed.concat(chunk);
            const [call] = whole.tool_calls;
            const result = new ToolMessage({ content: noon(call.args), tool_call_id: call.id });
            const last = await client.bindTools([tool], { tool_choice: 'none' }).invoke([...messages, whole, result]);
            const pick = ({ name, args }) => ({ name, args });
            return { call: pick(call), streamed: pick(streamed.tool_calls[0]), text: last.content };
        },
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
        async tools(messages) {
            const { FunctionTool } = require('@llamaindex/core/tools');
            const clock = FunctionTool.from(noon, { name: 'clock', description: 'Tells the time.', parameters });
            const calling = make({ tool_choice: must_call });
            const whole = (await calling.chat({ messages, tools: [clock] })).message;
            let streamed;
            for await (const chunk of await calling.chat({ messages, tools: [clock], stream: true }))
                streamed = chunk.options?.toolCall?.[0] ?? streamed;
            const [call] = whole.options.toolCall;
            const args = ({ input }) => (typeof input === 'string' ? JSON.parse(input) : input);
            const result = { id: call.id, result: noon(args(call)), isError: false };
            const last = await make({ tool_choice: 'none' }).chat({
                messages: [...messages, whole, { role: 'user', content: result.result, options: { toolResult: result } }],
                tools: [clock] });
            return { call: { name: call.name, args: args(call) },
                     streamed: { name: streamed.name, args: args(streamed) }, text: last.message.content };
        },
    };
}
