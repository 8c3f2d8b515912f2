# A node of Palimpsest. The same image serves alone and in a cluster: see compose.yaml and docs/operations.md.
#
#   docker build -t palimpsest:0.1.0 .
#   docker run --init -p 127.0.0.1:8080:8080 -v palimpsest:/data -e SERVICE_SINGLE_NODE=1 palimpsest:0.1.0

# The full image has the compilers that native/sqlguard and the optional hnswlib-node want.
FROM node:24.21.0-bookworm AS build
WORKDIR /app
# node-gyp finds Node's own headers here and downloads none.
ENV npm_config_nodedir=/usr/local
COPY package.json package-lock.json .npmrc ./
COPY native native
RUN npm ci
COPY tsconfig.json rolldown.config.ts ./
COPY gen gen
COPY src src
# A node without its SQL guard would start and refuse every SQL call: better no image.
RUN npm run build && npm ci --omit=dev && test -f native/build/sqlguard.so

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/native native
COPY --from=build /app/dist dist
COPY package.json LICENSE ./
COPY docs/llms.txt docs/
RUN install --directory --owner=node --group=node --mode=0700 /data
USER node
ENV SERVICE_DATA_DIR=/data \
    SERVICE_LISTEN=0.0.0.0:8080
VOLUME /data
EXPOSE 8080
# /health says that the process answers, with and without TLS; the certificate is for other names than 127.0.0.1.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "-e", "const { SERVICE_LISTEN: at, SERVICE_TLS_CERT: cert } = process.env; require(cert ? 'https' : 'http').get({ host: '127.0.0.1', port: at.split(':').at(-1), path: '/health', rejectUnauthorized: false }, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
ENTRYPOINT ["node", "dist/lib/main.js"]
CMD ["serve"]
